"""SHOW counts every row that a query would, whoever wrote it and wherever it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from platform_plugin.errors import PlatformError, UnknownObject
from platform_plugin.platform import Platform
from platform_plugin.select.overview import read_overview

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_kept_in_the_catalogue_are_counted(lake_url: str, duck: Any) -> None:
    with Platform.create(lake_url) as platform:
        platform.execute("CREATE TABLE t (i INT)")
        platform.execute("INSERT INTO t VALUES (1), (2), (3), (4)")
        client = duck(lake_url)
        client.execute("INSERT INTO t VALUES (5), (6)")  # so few that DuckDB keeps them in the catalogue
        client.execute("DELETE FROM t WHERE i IN (2, 6)")
        (found,) = platform.execute("SHOW TABLES")
        rows = dict(zip(platform.execute("SHOW TABLES").columns, found, strict=True))["rows"]
        assert rows == client.execute("SELECT count(*) FROM t").fetchall()[0][0] == 4
        assert [relation.rows for relation in read_overview(lake_url).relations] == [4]


def test_an_unknown_name_is_pointed_at(lake_url: str) -> None:
    with Platform.create(lake_url) as platform:
        platform.execute("CREATE TABLE users (id INT)")
        for statement in ("SHOW CREATE TABLE usres", "SHOW COLUMNS FROM usres", "DESCRIBE usres"):
            with pytest.raises(PlatformError, match=r"did you mean main\.users") as caught:
                platform.execute(statement)
            assert caught.value.detail is not None
            assert "^^^^^" in caught.value.detail


@pytest.mark.spark
def test_the_statement_of_a_view_makes_it_again_with_its_options(tmp_path: Path, spark_server: Any) -> None:
    options = "(target_lag = '5 seconds', maintenance = 'batch', start = 'earliest', on_table_change = 'refuse', batch_rows = 50)"
    query = "SELECT uid, count(*) FROM main.posts GROUP BY uid"
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT)")
        platform.execute(f"CREATE VIEW activity (uid, n) COMMENT 'it''s of users' WITH {options} AS {query}")
        ((said,),) = platform.execute("SHOW CREATE VIEW activity")
        assert said == f"CREATE VIEW main.activity (uid, n) COMMENT 'it\\'s of users' WITH {options} AS {query}"
        platform.execute("DROP VIEW activity")
        platform.execute(said)
        assert list(platform.execute("SHOW CREATE VIEW activity")) == [(said,)]
        platform.execute("CREATE VIEW users COMMENT 'who wrote' AS SELECT DISTINCT 1 AS uid")
        assert list(platform.execute("SHOW CREATE users")) == [("CREATE VIEW main.users COMMENT 'who wrote' AS SELECT DISTINCT 1 AS uid",)]


def test_snapshots_of_a_relation_are_those_that_changed_it(tmp_path: Path) -> None:
    with Platform.create(tmp_path / "lake") as platform:
        for statement in (
            "CREATE TABLE users (id INT)",
            "CREATE STREAM posts (uid INT)",
            "INSERT INTO users VALUES (1)",
            "INSERT INTO posts VALUES (1)",
            "ALTER TABLE users ADD COLUMN name STRING",
            "ALTER TABLE users RENAME TO people",
            "INSERT INTO posts VALUES (2)",
        ):
            platform.execute(statement)
        with platform.lake.commit("create view main.names") as commit:
            commit.create_view("names", "SELECT name FROM people")

        def messages(name: str) -> list[str]:
            return [row["message"] for row in platform.execute(f"SHOW SNAPSHOTS FROM {name}").arrow().to_pylist()]

        assert messages("posts") == ["create stream main.posts", "insert into main.posts", "insert into main.posts"]
        assert len(messages("people")) == 4
        assert messages("names") == ["create view main.names"]
        assert len(platform.execute("SHOW SNAPSHOTS").arrow()) == 9
        with pytest.raises(UnknownObject, match='nobody" does not exist'):
            messages("nobody")
