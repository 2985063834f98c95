"""Lineage against answers that were worked out by hand."""

from __future__ import annotations

import pytest

from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.types.data_types import Field
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.operators.group.split import read_plan
from platform_plugin.orchestration.assets.lineage import trace_columns

RELATIONS = {
    name: RelationFacts(
        name=("main", name), kind=kind, fields=tuple(Field(name=column, type=parse_type("INT")) for column in columns.split())
    )
    for name, kind, columns in (("p", "stream", "uid score at"), ("u", "table", "id region rate"), ("t", "table", "uid tags"))
}


def traced(sql):
    relations = RELATIONS | {f"main.{name}": relation for name, relation in RELATIONS.items()}
    found = trace_columns(read_plan(sql, relations))
    return {name: {f"{origin.relation}.{origin.column}" for origin in origins} for name, origins in found.items()}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM u", {"id": {"u.id"}, "region": {"u.region"}, "rate": {"u.rate"}}),
        ("SELECT 1 AS one, count(*) AS n FROM p", {"one": set(), "n": set()}),
        ("SELECT rate / score AS x FROM u JOIN p ON id = uid WHERE at > 0", {"x": {"u.rate", "p.score"}}),
        ("SELECT uid, sum(s) AS s FROM (SELECT uid, score + at AS s FROM p) GROUP BY uid", {"uid": {"p.uid"}, "s": {"p.score", "p.at"}}),
        ("WITH a AS (SELECT id AS k FROM u) SELECT a.k, b.k AS j FROM a, a AS b", {"k": {"u.id"}, "j": {"u.id"}}),
        ("SELECT id AS k FROM u UNION ALL SELECT uid FROM p", {"k": {"u.id", "p.uid"}}),
        ("SELECT DISTINCT rate FROM u ORDER BY rate LIMIT 3", {"rate": {"u.rate"}}),
        ("SELECT id, (SELECT max(score) FROM p WHERE uid = id) AS best FROM u", {"id": {"u.id"}, "best": {"p.score"}}),
        ("SELECT sum(rate) OVER (PARTITION BY region) AS s FROM u", {"s": {"u.rate", "u.region"}}),
        ("SELECT id FROM u LEFT SEMI JOIN p ON uid = id", {"id": {"u.id"}}),
        ("SELECT uid, tag FROM t LATERAL VIEW explode(array(tags, uid)) x AS tag", {"uid": {"t.uid"}, "tag": {"t.tags", "t.uid"}}),
    ],
)
def test_each_column_is_traced_to_the_values_that_it_is_made_of(sql, expected):
    assert traced(sql) == expected
