"""A stream is never built, sorted or shuffled before its first aggregation; filters and the choice of columns reach its scan."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isclose

import pytest

from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.platform import Platform
from tests.relations.streams import tpch

pytestmark = pytest.mark.spark

RUNNING = """
    SELECT u.username, u.contact_info, p.score, u.rate / p.score AS price
    FROM users u, (SELECT uid, avg(score) AS score FROM posts GROUP BY uid) p
    WHERE u.id = p.uid AND u.region = 'DE' AND p.score >= 1000 ORDER BY price"""


@dataclass
class Node:
    """An operator of a physical plan, as `EXPLAIN` draws it."""

    text: str
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None

    @property
    def name(self) -> str:
        return self.text.split(" ")[0].split("(")[0]

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()

    def ancestors(self):
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


def parse_plan(lines):
    """The tree of the drawing: an operator's indentation says whose input it is."""
    start = next(place for place, line in enumerate(lines) if "== Physical Plan ==" in line) + 1
    stack: list[tuple[int, Node]] = []
    root = None
    for line in lines[start:]:
        drawn = re.match(r"^(?P<indent>[ :+-]*)(?P<text>[^ :+-].*)$", line)
        if drawn is None:
            continue
        depth, node = len(drawn["indent"]), Node(drawn["text"].removeprefix("*").lstrip())
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if stack:
            node.parent = stack[-1][1]
            node.parent.children.append(node)
        root = root or node
        stack.append((depth, node))
    return root


def breaches(plan, column):
    """What happens to the rows of the scan that reads this column before they are aggregated, and must not."""
    found = []
    scans = [node for node in plan.walk() if node.name == "FileScan" and re.search(rf"\b{column}\w*#", node.text)]
    assert scans, [node.text for node in plan.walk()]
    for scan in scans:
        for node in scan.ancestors():
            if "Aggregate" in node.name:
                break
            if node.name in (
                "Exchange",
                "BroadcastExchange",
                "Sort",
                "SortMergeJoin",
                "CartesianProduct",
                "TakeOrderedAndProject",
                "Window",
            ):
                found.append(node.text)
    return found


@pytest.fixture(scope="module")
def platform(spark_server, tmp_path_factory):
    """TPC-H at scale 0.01 twice: with `lineitem` as a stream of several segments, and all tables again in the schema `plain`."""
    data = tpch.generate(tmp_path_factory.mktemp("tpch"), 0.01)
    with Platform.create(tmp_path_factory.mktemp("planning") / "lake") as platform:
        platform.execute("CREATE SCHEMA plain")
        lake = platform.lake
        for name in tpch.TABLES:
            rows = tpch.read(data, name)
            with lake.commit("load") as commit:
                tables = [commit.create_table(target, lake.columns_of(rows)) for target in (name, ("plain", name))]
                commit.append(tables[1], [lake.write(tables[1], rows)])
                if name == "lineitem":
                    declare_relation(commit, tables[0], Declaration(kind="stream"))
                else:
                    commit.append(tables[0], [lake.write(tables[0], rows)])
        with platform.stream("lineitem") as stream:
            for start in range(0, rows.num_rows, 20_000):
                stream.append(rows.slice(start, 20_000), wait=True)
        platform.execute("CREATE TABLE users (id INT, username STRING, contact_info STRING, region STRING, rate DOUBLE)")
        platform.execute("CREATE STREAM posts (uid INT, username STRING, score DOUBLE, content STRING)")
        users = "(1, 'Tom', '+1 555', 'US', 200), (2, 'Max', '+1 555', 'US', 200), (12, 'Chris', '+49 89 289', 'DE', 300)"
        platform.execute(f"INSERT INTO users VALUES {users}")
        with platform.stream("posts") as posts:
            posts.append([{"uid": 2, "username": "Max", "score": 54.0}, {"uid": 12, "username": "Chris", "score": 9153.0}])
        yield platform


def plan_of(platform, query):
    return parse_plan([row[0] for row in platform.execute(f"EXPLAIN {query}")])


def rows_of(platform, query):
    return [tuple(row) for row in platform.execute(query)]


def same(left, right):
    def near(a, b):
        return isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else a == b

    return len(left) == len(right) and all(
        all(map(near, a, b)) for a, b in zip(sorted(left, key=repr), sorted(right, key=repr), strict=True)
    )


@pytest.mark.parametrize("number", list(tpch.QUERIES))
def test_tpch_probes_the_stream(platform, number):
    assert breaches(plan_of(platform, tpch.QUERIES[number]), "l_") == []


@pytest.mark.parametrize("number", list(tpch.QUERIES))
def test_tpch_has_the_same_rows(platform, number):
    froms = re.compile(r"(?<=FROM )[\w, ]+")
    plain = froms.sub(lambda found: re.sub(rf"\b({'|'.join(tpch.TABLES)})\b", r"plain.\1", found[0]), tpch.QUERIES[number])
    assert plain.count("plain.lineitem") == 1
    expected = rows_of(platform, plain)
    assert same(rows_of(platform, tpch.QUERIES[number]), expected)


def test_the_plan_of_the_same_query_over_a_table_would_be_found_out(platform):
    """The check can fail: over tables, Spark builds what seems smallest, or sorts."""
    plain = "SELECT sum(l_quantity) FROM plain.orders, plain.lineitem WHERE o_orderkey = l_orderkey AND l_shipdate > DATE '1998-11-01'"
    platform.work.session.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        assert breaches(plan_of(platform, plain), "l_")
        assert breaches(plan_of(platform, plain.replace("plain.", "")), "l_") == []
    finally:
        platform.work.session.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_the_running_example(platform):
    """RS-01, E-A1: enrichment of a stream by a table."""
    plan = plan_of(platform, RUNNING)
    assert breaches(plan, "uid") == []
    assert rows_of(platform, RUNNING) == [("Chris", "+49 89 289", 9153.0, 300.0 / 9153.0)]


def test_the_smallest_stream_is_still_probed(platform):
    """RS-14: even if statistics say that the stream is tiny."""
    for query in (
        "SELECT count(*) FROM plain.lineitem JOIN posts ON l_suppkey = uid",
        "SELECT count(*) FROM posts JOIN plain.lineitem ON l_suppkey = uid",
        "SELECT count(*) FROM posts LEFT JOIN plain.lineitem ON l_suppkey = uid",
    ):
        assert breaches(plan_of(platform, query), "uid") == [], query


def test_only_needed_columns_are_read_and_filters_reach_the_scan(platform):
    for number in (3, 6, 14):
        plan = plan_of(platform, tpch.QUERIES[number])
        scan = next(node for node in plan.walk() if node.name == "FileScan" and "l_" in node.text)
        read = set(re.findall(r"\b(l_\w+)#", scan.text.split("]")[0]))
        assert read == set(re.findall(r"\bl_\w+", tpch.QUERIES[number])), number
        assert re.search(r"PushedFilters: \[\w", scan.text), scan.text


def test_an_update_of_a_table_during_the_query_does_not_show(platform):
    """RS-13: tables are at the query's snapshot, like the stream."""
    result = platform.execute(RUNNING)
    platform.execute("UPDATE users SET rate = 0 WHERE id = 12")
    try:
        assert [row[0] for row in result] == ["Chris"]
    finally:
        platform.execute("UPDATE users SET rate = 300 WHERE id = 12")
