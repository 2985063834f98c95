"""Many views with filters of their own, whose rows Spark SQL repeats by filter: the answers of DuckDB over the same lake."""

import random

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.operators.group.variants import MOST_FILTERS
from platform_plugin.platform import Platform
from platform_plugin.relations.views.follow import passes

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_server")]

BODIES = [
    "SELECT k, count(*) AS n, sum(v) AS s FROM calls WHERE v = {number} GROUP BY k",
    "SELECT v, count(*) AS n, sum(v) AS s FROM calls WHERE k <> {number} GROUP BY v",
    "SELECT count(*) AS n, sum(v) AS s FROM calls WHERE v > {number}",
]


@pytest.mark.parametrize("lattice", [False, True])
def test_views_with_many_filters_agree_with_duckdb(tmp_path, duck, monkeypatch, *, lattice):
    seen = []
    find = passes.find_sharing
    monkeypatch.setattr(passes, "find_sharing", lambda *given: seen.append(find(*given)[1]) or find(*given))
    with Platform.create(f"platform+local://{tmp_path}/lake", engine="spark_sql") as platform:
        platform.work.limits = Limits(sent_range_rows=0)
        platform.execute("CREATE STREAM calls (k BIGINT, v BIGINT) WITH (retention_rows = 1000000)")
        # Some filters let no row pass, others nearly all.
        views = {f"v{number}": BODIES[number % 3].format(number=number) for number in range(2 * MOST_FILTERS)}
        for name, body in views.items():
            platform.execute(f"CREATE VIEW {name} AS {body}")
        chance, count = random.Random(1), 12_000 if lattice else 300
        for _ in range(2):
            columns = {name: pa.array([chance.choice([None, *range(6)]) for _ in range(count)], pa.int64()) for name in ("k", "v")}
            table = platform.lake.table("calls")
            with platform.lake.commit("rows") as commit:
                commit.append(table, [platform.lake.write(table, pa.table(columns))])
            done = run_maintenance(platform.work)
            assert (done.jobs, done.failed) == (1, {})
            assert set(done.on_spark) == {f"main.{name}" for name in views}
            assert [(query.lattice, len(query.parts)) for query in seen[-1].queries] == [(lattice, len(views))]
            assert all("FILTER(" not in query.sql() for query in seen[-1].queries)
        oracle = duck(str(platform.lake.location))
        for name, body in views.items():
            own = sorted((tuple(row) for row in platform.execute(f"SELECT * FROM {name}")), key=repr)
            assert own == sorted(map(tuple, oracle.rows(body)), key=repr), body
