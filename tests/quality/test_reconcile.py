"""Reconciling finds nothing where all is well, and what was changed behind a view's back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin import Platform
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.quality.reconcile import run_reconcile
from platform_plugin.relations.views.read.view import part_tables
from platform_plugin.relations.views.record import read_records

pytestmark = pytest.mark.spark


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE users (id INT, region STRING)")
        made.execute("INSERT INTO users VALUES (1, 'EU'), (2, 'US')")
        made.execute("CREATE STREAM posts (uid INT, score DOUBLE) WITH (retention_rows = 3)")
        made.execute(
            "CREATE VIEW impact AS SELECT region, avg(score) AS score, count(*) AS n FROM posts JOIN users ON uid = id GROUP BY region"
        )
        made.execute("INSERT INTO posts VALUES (1, 0.1), (2, 0.7), (1, 0.2)")
        made.execute("REFRESH VIEW impact")
        yield made


def test_a_view_agrees_with_its_query_and_a_spoilt_state_is_found(platform, spark_server):
    name = Name.of("impact")
    assert run_reconcile(platform.work, name) == run_reconcile(platform.work, name, parts=1)
    found = run_reconcile(platform.work, name)
    assert (found.agrees, found.rows, found.why_not) == (True, 2, None)
    halves = [run_reconcile(platform.work, name, parts=2, part=part).rows for part in (0, 1)]
    assert sum(halves) == 2
    lake = platform.lake
    with lake.reading() as connection:
        record = next(iter(read_records(connection).values()))
    state = part_tables(platform.work, record, lake.snapshot())["state_1"]
    rows = lake.read(state.name)
    with lake.commit("spoil it") as commit:
        commit.append(state, [lake.write(state, pa.Table.from_pylist(rows.to_pylist()[:1], schema=rows.schema))])
    spoilt = run_reconcile(platform.work, name)
    assert not spoilt.agrees
    assert {row["only in"] for row in spoilt.differences} == {"the view", "the query"}


def test_where_rows_have_left_it_says_so(platform, spark_server):
    platform.execute("INSERT INTO posts VALUES (1, 1.0), (2, 2.0), (2, 3.0), (2, 4.0)")
    platform.execute("REFRESH VIEW impact")
    platform.execute("INSERT INTO posts VALUES (1, 1.0), (2, 2.0), (2, 3.0), (2, 4.0)")
    assert "have left" in run_reconcile(platform.work, Name.of("impact")).why_not
