"""The one door with a catalogue on PostgreSQL: every kind of statement, and the database going away."""

from __future__ import annotations

from datetime import datetime

import pytest

from platform_plugin.errors import CatalogueError, PlatformError
from platform_plugin.platform import Platform

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_every_kind_of_statement_on_postgres(postgres_database, tmp_path, spark_server, duck):
    url = postgres_database.lake_url(tmp_path / "data")
    (tmp_path / "more.csv").write_text("id,name,at\n10,ten,2026-01-01 10:00:00\n11,,2026-01-01 11:00:00\n")
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t (id INT NOT NULL, name STRING, at TIMESTAMP_NTZ)")
        assert (
            platform.execute("INSERT INTO t VALUES (1, 'one', TIMESTAMP_NTZ'2026-01-01 01:00:00'), (2, :n, NULL)", {"n": "it's"}).row_count
            == 2
        )
        first = platform.lake.snapshot()
        assert platform.execute(f"COPY t FROM '{tmp_path}/more.csv' (FORMAT csv, HEADER true)").row_count == 2
        assert platform.execute("INSERT INTO t SELECT id + 100, concat('n', id), NULL FROM range(5)").row_count == 5
        assert platform.execute("UPDATE t SET name = upper(name) WHERE id >= 100").row_count == 5
        assert platform.execute("DELETE FROM t WHERE id IN (SELECT max(id) FROM t)").row_count == 1
        platform.execute("CREATE VIEW named AS SELECT id FROM t WHERE name IS NOT NULL")
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        platform.execute("INSERT INTO posts SELECT id, id * 2 FROM t")
        wanted = [
            (1, "one", datetime(2026, 1, 1, 1)),  # noqa: DTZ001  the column has no time zone
            (2, "it's", None),
            (10, "ten", datetime(2026, 1, 1, 10)),  # noqa: DTZ001
            (11, None, datetime(2026, 1, 1, 11)),  # noqa: DTZ001
            *((number, f"N{number - 100}", None) for number in range(100, 104)),
        ]
        assert list(platform.execute("SELECT * FROM t ORDER BY id")) == wanted
        assert list(platform.execute(f"SELECT id FROM t AT (VERSION => {first.id}) ORDER BY id")) == [(1,), (2,)]
        assert list(platform.execute("SELECT count(*) FROM t AT (TIMESTAMP => :at)", {"at": first.time})) == [(2,)]
        assert list(platform.execute("SELECT sum(score) FROM posts JOIN named ON uid = id")) == [(838,)]
        with pytest.raises(PlatformError, match="NULL"):
            platform.execute("INSERT INTO t (name) VALUES ('x')")
        with pytest.raises(PlatformError, match=r"must not be NULL|holds NULL"):
            platform.execute("INSERT INTO t SELECT NULL, 'x', NULL FROM range(3)")
        platform.execute("ALTER TABLE t ADD COLUMN more INT")
        platform.execute("DROP VIEW named")
        assert [row[1] for row in platform.execute("SHOW TABLES")] == ["posts", "t"]
    assert duck(url).rows("SELECT id, name FROM t ORDER BY id") == [row[:2] for row in wanted]
    with Platform.open(url) as platform:
        assert list(platform.execute("SELECT count(*) FROM t")) == [(8,)]


def test_a_database_that_goes_away_is_one_clear_error_and_comes_back(private_postgres, tmp_path, spark_server):
    url = private_postgres.database("postgres").lake_url(tmp_path / "data")
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE t AS SELECT id FROM range(100)")
        private_postgres.stop("immediate")
        for sql in ("SELECT * FROM t", "INSERT INTO t VALUES (1)", "INSERT INTO t SELECT id FROM range(10)"):
            with pytest.raises(CatalogueError) as caught:
                platform.execute(sql)
            assert caught.value.hint
        private_postgres.start()
        assert list(platform.execute("SELECT count(*) FROM t")) == [(100,)]
