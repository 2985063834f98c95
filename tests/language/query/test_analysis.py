"""The relations that we see are those that Spark's own parser sees, before and after rendering."""

import json
import re
import subprocess
import sys

import pytest

from platform_plugin.language.query.query import analyse_query
from tests.language.queries import QUERIES

# A classic session of its own process: the parser is not part of the Connect API, and no other session may share the process.
PROBE = r"""
import json, re, sys
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
parser = session._jsparkSession.sessionState().sqlParser()
found = [re.findall(r"'UnresolvedRelation \[(.*?)\], \[", parser.parsePlan(text).treeString()) for text in json.load(sys.stdin)]
print("FOUND", json.dumps(found))
session.stop()
"""


def names_of_ctes(text):
    return {name.lower() for name in re.findall(r"(?:with|recursive|,)\s+(\w+)\s*(?:\([\w, ]*\))?\s+as\s+\(", text)}


@pytest.mark.slow
def test_spark_sees_the_same_relations():
    analysed = [analyse_query(text) for text in QUERIES]
    rendered = [query.render({reference: f"view {reference.index}" for reference in query.relations}).text for query in analysed]
    done = subprocess.run(
        [sys.executable, "-c", PROBE], input=json.dumps([*QUERIES, *rendered]), capture_output=True, text=True, check=True, timeout=110
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    found = json.loads(line.removeprefix("FOUND "))
    for text, query, before, after in zip(QUERIES, analysed, found[: len(QUERIES)], found[len(QUERIES) :], strict=True):
        ours = [", ".join(reference.name.parts) for reference in query.relations]
        theirs = list(before)
        for name in ours:
            assert name in theirs, text
            theirs.remove(name)
        assert {name.lower() for name in theirs} <= names_of_ctes(text), text
        views = [f"view {reference.index}" for reference in query.relations]
        assert sorted(name for name in after if name.startswith("view ")) == sorted(views), text
        assert len(after) == len(before), text
