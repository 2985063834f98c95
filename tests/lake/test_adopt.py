"""Lakes that DuckDB founded: refused as they are, ours after `adopt`, and DuckDB goes on with them."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.cli import main
from platform_plugin.errors import CatalogueError, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.lake import Lake
from platform_plugin.platform import Platform
from tests.lake.agreement import append, assert_agree, kept

FOUNDED = {
    "empty": "SELECT 1",
    "inlined": "CREATE TABLE t (i BIGINT, s VARCHAR); INSERT INTO t VALUES (1, 'a'), (2, NULL); DELETE FROM t WHERE i = 1",
    "many schemas": """
        CREATE TABLE t (i BIGINT, s VARCHAR);
        INSERT INTO t SELECT range, 'b' FROM range(2000);
        DELETE FROM t WHERE i < 5;
        CREATE SCHEMA one; CREATE SCHEMA "Two words"; CREATE VIEW one.v AS SELECT 1 AS x;
        CREATE TABLE one.t AS SELECT range AS k, {'a': range} AS st FROM range(1000);
        CREATE TABLE "Two words"."a table" (d DATE);
        ALTER TABLE one.t SET PARTITIONED BY (k);
        INSERT INTO one.t VALUES (7, {'a': 8});
        COMMENT ON TABLE t IS 'theirs'
    """,
}


@pytest.fixture
def data(lake_url, tmp_path):
    """The data folder of the lake that does not exist yet."""
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake" / "data" if "local" in lake_url else tmp_path / "data"


def names(url):
    """All tables and indexes of a catalogue."""
    engine = sa.create_engine(Location.parse(url).catalogue)
    try:
        known = sa.inspect(engine)
        tables = set(known.get_table_names())
        return tables | {index["name"] for table in tables for index in known.get_indexes(table)}
    finally:
        engine.dispose()


@pytest.mark.parametrize("state", FOUNDED)
def test_a_lake_that_duckdb_founded_is_adopted(lake_url, data, duck, state):
    reader = duck(lake_url, data=data)
    reader.execute(FOUNDED[state])
    before = names(lake_url)
    with pytest.raises(CatalogueError, match="created by another client and is not adopted") as refused:
        Lake.open(lake_url)
    assert "platform init --adopt" in refused.value.hint
    assert names(lake_url) == before, "opening writes nothing"
    Lake.adopt(lake_url).close()
    ours = [table for table in c.metadata.tables.values() if table.name.startswith("platform_")]
    wanted = {table.name for table in ours} | {index.name for table in c.metadata.tables.values() for index in table.indexes}
    assert wanted <= names(lake_url)
    with Lake.open(lake_url) as lake, Lake.adopt(lake_url) as again:
        assert lake.uuid == again.uuid
        assert_agree(lake, reader)
        assert_agree(lake, reader, snapshots=kept(lake)[1:])
        rows = pa.table({"i": [10, 11], "s": ["ours", None]})
        if state == "empty":
            with lake.commit("first") as commit:
                commit.create_table("t", lake.columns_of(rows))
        append(lake, lake.table("t"), rows)
        reader.execute("INSERT INTO t VALUES (12, 'theirs')")
        reader.execute("DELETE FROM t WHERE i = 10")
        assert_agree(lake, reader)
        lake.merge("t")
        with lake.lease():
            lake.expire(datetime.now(UTC))
        lake.retain()
        lake.vacuum(grace=timedelta(0))
        reader.execute("CREATE TABLE later (x INTEGER)")
        reader.execute("INSERT INTO later VALUES (1)")
        assert_agree(lake, duck(lake_url))


def test_a_data_folder_without_the_files_is_refused(lake_url, data, duck):
    reader = duck(lake_url, data=data)
    reader.execute(FOUNDED["many schemas"])
    reader.end()
    before = names(lake_url)
    data.rename(data.with_name("elsewhere"))
    data.mkdir()
    with pytest.raises(StorageError, match="does not hold the files"):
        Lake.adopt(lake_url)
    assert names(lake_url) == before
    assert list(data.iterdir()) == []


def test_a_foreign_lake_of_another_layout_is_adopted_once_it_has_ours(tmp_path, duck_process):
    """As the page on the lake says: the catalogue becomes lake.sqlite, the data folder data/ beside it."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    reader = duck_process.attach(f"platform+local://{theirs}", data=theirs / "files")
    reader.execute(FOUNDED["many schemas"])
    reader.end()
    (theirs / "files").rename(theirs / "data")
    theirs.rename(tmp_path / "lake")
    with Lake.adopt(tmp_path / "lake") as lake:
        assert lake.read("t").num_rows == 1995
    again = duck_process.attach(f"platform+local://{tmp_path}/lake")
    assert again.rows("SELECT count(*) FROM t") == [(1995,)]
    again.close()


STATEMENTS = [
    "SHOW TABLES",
    "SHOW STREAMS",
    "SHOW SAMPLES",
    "DESCRIBE EXTENDED t",
    "SHOW CREATE TABLE t",
    "COMMENT ON TABLE t IS 'x'",
    "ALTER TABLE t ADD COLUMN x INT",
    "ALTER TABLE t SET (target_file_size = '10 MB')",
    "INSERT INTO t VALUES (3, 'c', 4)",
    "CREATE SAMPLE some ON t SIZE 5",
    "CREATE TABLE w (i INT)",
    "DROP TABLE w",
    "DROP VIEW one.v",
    "CREATE STREAM s (i INT)",
]
COMMANDS = ["status", "tables", "maintain --once", "merge main.t", "expire --all", "vacuum"]


def test_whatever_comes_first_finds_what_it_needs(duck_process, tmp_path, monkeypatch):
    """Who adopts knows the tables of its own layers only: each statement must make, or do without, those of the others."""
    folder = tmp_path / "lake"
    monkeypatch.setenv("PLATFORM_RUNTIME_DIR", str(tmp_path / "run"))
    folder.mkdir()
    reader = duck_process.attach(f"platform+local://{folder}", data=folder / "data")
    reader.execute(FOUNDED["many schemas"])
    reader.end()
    Lake.adopt(folder).close()
    for statement in STATEMENTS:
        forget_upper_layers(folder)
        with Platform.open(folder) as platform:
            platform.execute(statement).close()
    for command in COMMANDS:
        forget_upper_layers(folder)
        assert main([*command.split(), "--url", str(folder)]) == 0, command


def forget_upper_layers(folder):
    database = sqlite3.connect(folder / "lake.sqlite")
    database.execute("PRAGMA synchronous = OFF")
    for table in c.metadata.tables:
        if table.startswith("platform_") and table not in ("platform_lake", "platform_lease"):
            database.execute(f"DROP TABLE IF EXISTS {table}")
    database.commit()
    database.close()
