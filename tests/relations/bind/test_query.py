"""A condition on a view leaves out files below it, with the reader's arguments, and the answer stays that of the query."""

from __future__ import annotations

import pytest

from platform_plugin.platform import Platform
from platform_plugin.relations.arguments import plan_parameters
from platform_plugin.relations.bind.query import bind_query

pytestmark = pytest.mark.spark

VIEWS = {
    "plain": "SELECT id AS i, day FROM visits",
    "named (number, at)": "SELECT id + 0 AS z, day FROM visits",
    "grouped": "SELECT day, count(*) AS n FROM visits GROUP BY day",
    "both": "SELECT id AS i, day FROM visits UNION ALL SELECT id, day FROM old_visits",
    "above": "SELECT i AS j, day FROM plain WHERE i >= 0",
    "few": "SELECT id AS i FROM visits ORDER BY id LIMIT 3",
    "ranked": "SELECT id AS i, rank() OVER (ORDER BY id) AS r FROM visits",
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory, spark_server):
    with Platform.create(tmp_path_factory.mktemp("views") / "lake") as made:
        for table in ("visits", "old_visits"):
            made.execute(f"CREATE TABLE {table} (id INT, day DATE)")
            for number in range(4):
                made.execute(f"INSERT INTO {table} VALUES ({10 * number}, DATE '2026-01-0{number + 1}'), ({10 * number + 1}, NULL)")
        for name, query in VIEWS.items():
            made.execute(f"CREATE VIEW {name} AS {query}")
        yield made


@pytest.mark.parametrize(
    ("text", "arguments", "files", "count"),
    [
        ("SELECT * FROM plain WHERE i = 10", {}, 1, 1),
        ("SELECT * FROM plain WHERE i > :low", {"low": 15}, 2, 4),
        ("SELECT * FROM plain WHERE i > ? AND i < ?", (5, 15), 1, 2),
        ("SELECT * FROM named WHERE at = DATE '2026-01-02'", {}, 1, 1),
        ("SELECT * FROM named WHERE number = 10", {}, 4, 1),
        ("SELECT n FROM grouped WHERE day = DATE '2026-01-03'", {}, 1, 1),
        ("SELECT day FROM grouped WHERE n = 1", {}, 4, 4),
        ("SELECT * FROM both WHERE i = 10", {}, 2, 2),
        ("SELECT * FROM above WHERE j = :low", {"low": 30}, 1, 1),
        ("SELECT * FROM few WHERE i = 30", {}, 4, 0),
        ("SELECT * FROM ranked WHERE i = 30", {}, 4, 1),
        ("SELECT p.i FROM plain p LEFT JOIN plain q ON p.i = q.i AND q.i = 10", {}, 5, 8),
        ("SELECT p.i FROM plain p LEFT JOIN plain q ON p.i = q.i WHERE q.i = 10", {}, 8, 1),
    ],
)
def test_a_condition_on_a_view_leaves_out_files_below_it(platform, text, arguments, files, count):
    bound = bind_query(platform.work, text, platform.lake.snapshot(), plan_parameters(arguments))
    assert bound.files_planned == files
    assert len(platform.execute(text, arguments).arrow()) == count


def test_without_the_rule_all_files_are_read(platform):
    platform.execute("SET RULE pruning OFF")
    try:
        assert bind_query(platform.work, "SELECT * FROM plain WHERE i = 10", platform.lake.snapshot()).files_planned == 4
    finally:
        platform.execute("SET RULE ALL ON")
