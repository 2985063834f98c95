"""Places that are no lake, or somebody else's: one clear error, and nothing there is changed."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CatalogueError, LakeMoved, ObjectExists, PathOutsideLake, PlatformError, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue import founding
from platform_plugin.lake.catalogue.marks import MARKER
from platform_plugin.lake.lake import Lake


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder and what it holds; SQLite's shared memory comes and goes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


def filled(url) -> Lake:
    lake = Lake.create(url)
    rows = pa.table({"id": list(range(100)), "word": [f"word {i}" for i in range(100)]})
    with lake.commit("load") as commit:
        table = commit.create_table("t", lake.columns_of(rows))
        commit.append(table, [lake.write(table, rows)])
    return lake


def append(lake, word) -> None:
    table = lake.table("t")
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, pa.table({"id": [1], "word": [word]}))])


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 4096, bytes(range(256)) * 40, b"hello, world\n", b"SQLite format 3\0" + b"\xff" * 4080, b"SQLite format 3\0"],
    ids=["empty", "zeros", "bytes", "text", "broken page", "header only"],
)
def test_a_file_that_is_no_catalogue(tmp_path, content):
    (tmp_path / "lake.sqlite").write_bytes(content)
    before = fingerprint(tmp_path)
    with pytest.raises(CatalogueError) as raised:
        Lake.open(tmp_path)
    assert raised.value.hint
    assert fingerprint(tmp_path) == before


def test_a_plain_database_is_no_lake_and_stays_as_it_is(tmp_path):
    with sqlite3.connect(tmp_path / "lake.sqlite") as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    before = fingerprint(tmp_path)
    with pytest.raises(CatalogueError, match="not a lake's catalogue"):
        Lake.open(tmp_path)
    assert fingerprint(tmp_path) == before


def test_folders_and_names_that_lead_nowhere(tmp_path):
    (tmp_path / "lake.sqlite").mkdir()
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "missing", tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300), "/proc/1/lake"):
        with pytest.raises(PlatformError) as raised:
            Lake.open(place)
        assert raised.value.hint
        assert Lake.__name__ not in str(raised.value)
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300), "/proc/nowhere/lake"):
        with pytest.raises(StorageError):
            Lake.create(place)


@pytest.mark.parametrize("version", ["1.2", "2.0", "0.3", "banana"])
def test_another_format_version_is_refused_and_named(lake_url, version):
    lake = filled(lake_url)
    with lake.writing() as connection:
        connection.execute(sa.update(c.METADATA).where(c.METADATA.c.key == "version").values(value=version))
    lake.close()
    with pytest.raises(CatalogueError, match=f"format {version}") as raised:
        Lake.open(lake_url)
    assert "upgrade" in raised.value.hint


def test_a_catalogue_cut_off_anywhere_never_gives_a_wrong_answer(tmp_path):
    lake = filled(tmp_path / "lake")
    with lake.writing() as connection:  # a page of its own for every table
        connection.execute(sa.insert(c.TAG), [{"object_id": i, "key": "k", "value": "v" * 500} for i in range(50)])
    whole_rows = lake.read("t")
    lake.close()
    file = tmp_path / "lake" / "lake.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    whole = file.read_bytes()
    sizes = [*range(0, 100, 7), *range(100, len(whole), len(whole) // 60), len(whole) - 1]
    read = 0
    for size in sizes:
        for leftover in file.parent.glob("lake.sqlite-*"):
            leftover.unlink()
        file.write_bytes(whole[:size])
        with contextlib.suppress(PlatformError), Lake.open(tmp_path / "lake") as cut:
            assert cut.read("t").equals(whole_rows)
            read += 1
    assert read < len(sizes) // 2


def test_founding_where_a_lake_is_says_so(lake_url):
    with filled(lake_url) as lake:
        before = lake.read("t")
        with pytest.raises(ObjectExists, match="exists already"):
            Lake.create(lake_url)
        assert lake.read("t").equals(before)


def test_two_founders_at_once_make_one_lake(lake_url):
    def found(_):
        try:
            with Lake.create(lake_url) as lake:
                return lake.uuid
        except ObjectExists:
            return None

    with ThreadPoolExecutor(6) as pool:
        made = [uuid for uuid in pool.map(found, range(6)) if uuid]
    assert len(made) == 1
    with Lake.open(lake_url) as lake:
        assert lake.uuid == made[0]
    assert fingerprint(Path(lake.storage.root)).keys() == {MARKER}


@pytest.mark.postgres
def test_two_founders_at_once_in_a_new_schema_make_one_lake(postgres_database, tmp_path):
    url = postgres_database.lake_url(tmp_path / "data") + "&schema=odd%20one"
    test_two_founders_at_once_make_one_lake(url)


@pytest.mark.postgres
def test_two_lakes_never_share_a_data_folder(postgres_database, tmp_path):
    url = postgres_database.lake_url(tmp_path / "data")
    Lake.create(url + "&schema=one").close()
    # The first one is still empty, which must not look like nobody's.
    with pytest.raises(StorageError, match="belongs to another lake"):
        Lake.create(url + "&schema=two")
    with pytest.raises(PlatformError):
        Lake.open(url + "&schema=two")


@pytest.mark.postgres
def test_two_lakes_in_one_database_are_strangers(postgres_database, tmp_path):
    urls = [postgres_database.lake_url(tmp_path / name) + f"&schema={name}" for name in ("one", "two")]
    one, two = filled(urls[0]), Lake.create(urls[1])
    assert two.tables() == []
    with two.commit("other") as commit:
        commit.create_table("t", Lake.columns_of(pa.table({"x": [1]})))
    assert one.read("t").num_rows == 100
    assert two.read("t").num_rows == 0
    assert one.snapshot().id == two.snapshot().id == 1
    for lake in (one, two):
        lake.close()


@pytest.mark.postgres
def test_a_failed_founding_leaves_nothing(postgres_database, tmp_path):
    with pytest.raises(CatalogueError):
        Lake.create(postgres_database.lake_url(tmp_path / "data").replace(f"/{postgres_database.name}?", "/no_such_database?"))
    assert list(tmp_path.iterdir()) == []


def test_a_founding_that_was_interrupted_is_finished_by_the_next(lake_url, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(founding, "_write_first_snapshot", killed)
        with pytest.raises(KeyboardInterrupt):
            Lake.create(lake_url)
    with pytest.raises(CatalogueError):
        Lake.open(lake_url)
    with filled(lake_url) as lake:
        assert lake.read("t").num_rows == 100


def test_a_full_folder_is_not_taken(tmp_path):
    (tmp_path / "lake" / "data").mkdir(parents=True)
    (tmp_path / "lake" / "data" / "mine.txt").write_text("precious")
    with pytest.raises(StorageError, match="is not empty"):
        Lake.create(tmp_path / "lake")
    assert (tmp_path / "lake" / "data" / "mine.txt").read_text() == "precious"
    assert not (tmp_path / "lake" / "data" / MARKER).exists()


def test_a_moved_lake_is_noticed_and_adopted(tmp_path):
    filled(tmp_path / "lake").close()
    (tmp_path / "lake").rename(tmp_path / "elsewhere")
    with pytest.raises(LakeMoved) as raised:
        Lake.open(tmp_path / "elsewhere")
    assert "adopt" in raised.value.hint
    with Lake.adopt(tmp_path / "elsewhere") as lake:
        assert lake.read("t").num_rows == 100
    with Lake.open(tmp_path / "elsewhere") as lake:
        assert lake.read("t").num_rows == 100


def test_a_copied_lake_is_noticed_and_then_a_lake_of_its_own(tmp_path):
    filled(tmp_path / "lake").close()
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    with pytest.raises(LakeMoved):
        Lake.open(tmp_path / "copy")
    with Lake.adopt(tmp_path / "copy") as copy, Lake.open(tmp_path / "lake") as lake:
        with copy.commit("drop") as commit:
            commit.drop_table(copy.table("t"))
        assert lake.read("t").num_rows == 100


def test_two_catalogues_never_share_a_data_folder_even_as_copies(tmp_path):
    filled(tmp_path / "lake").close()
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "lake" / "lake.sqlite", tmp_path / "copy")
    (tmp_path / "copy" / "data").symlink_to(tmp_path / "lake" / "data")
    before = fingerprint(tmp_path)
    for door in (Lake.open, Lake.adopt):
        with pytest.raises(PlatformError) as raised:
            door(tmp_path / "copy")
        assert raised.value.hint
    assert fingerprint(tmp_path) == before
    (tmp_path / "lake" / "lake.sqlite").unlink()
    with Lake.adopt(tmp_path / "copy") as lake:  # the only one left may have it
        assert lake.read("t").num_rows == 100


@pytest.mark.postgres
def test_of_two_copies_of_a_catalogue_one_at_a_time_has_the_data(postgres_server, postgres_database, tmp_path):
    url = postgres_database.lake_url(tmp_path / "data")
    running = filled(url)
    running.close()  # a template must have no connections
    name = f"{postgres_database.name}_copy"
    postgres_server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{postgres_database.name}"')
    copied = postgres_server.database(name).lake_url(tmp_path / "data")
    try:
        with pytest.raises(StorageError, match="another copy of the catalogue") as raised:
            Lake.open(copied)
        assert "adopt" in raised.value.hint
        with Lake.adopt(copied) as copy:
            append(copy, "only here")
        with pytest.raises(StorageError, match="another copy of the catalogue"):
            Lake.open(url)
        # Who had it open before must not take the other one's files for left-overs.
        for damage in (lambda: running.vacuum(grace=timedelta(0)), lambda: running.vacuum(grace=timedelta(0), dry_run=True)):
            with pytest.raises(StorageError, match="another copy of the catalogue"):
                damage()
        with Lake.open(copied) as copy:
            assert copy.read("t").num_rows == 101
        with Lake.adopt(url) as back:
            assert back.read("t").num_rows == 100
    finally:
        running.close()
        postgres_server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.mark.postgres
def test_a_database_that_hides_its_identity_still_holds_lakes(postgres_database, tmp_path):
    with sa.create_engine(postgres_database.sqlalchemy_url).begin() as connection:
        connection.execute(sa.text("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"))
        connection.execute(sa.text("DROP ROLE IF EXISTS stranger"))
        connection.execute(sa.text("CREATE ROLE stranger LOGIN"))
        connection.execute(sa.text("GRANT CREATE, USAGE ON SCHEMA public TO stranger"))
    url = postgres_database.lake_url(tmp_path / "data").replace("//postgres@", "//stranger@")
    try:
        filled(url).close()
        with Lake.open(url) as lake:
            assert lake.read("t").num_rows == 100
            lake.vacuum()
    finally:
        with sa.create_engine(postgres_database.sqlalchemy_url).begin() as connection:
            connection.execute(sa.text("DROP OWNED BY stranger"))
            connection.execute(sa.text("DROP ROLE stranger"))


def test_a_folder_of_another_lake_is_refused(tmp_path):
    filled(tmp_path / "one").close()
    filled(tmp_path / "two").close()
    shutil.rmtree(tmp_path / "one" / "data")
    shutil.copytree(tmp_path / "two" / "data", tmp_path / "one" / "data")
    for door in (Lake.open, Lake.adopt):
        with pytest.raises(StorageError, match="belongs to another lake"):
            door(tmp_path / "one")


@pytest.mark.parametrize(
    "path", ["../../../secret.parquet", "/etc/hostname", "file:///etc/hostname", "s3://bucket/x.parquet", "link/secret.parquet"]
)
def test_catalogue_rows_that_point_outside_are_refused_and_not_deleted(tmp_path, path):
    lake = filled(tmp_path / "lake")
    (tmp_path / "elsewhere").mkdir()
    for folder in (tmp_path / "elsewhere", tmp_path / "lake", tmp_path / "lake" / "data"):
        (folder / "secret.parquet").write_text("secret")
    (tmp_path / "lake" / "data" / "main" / "t" / "link").symlink_to(tmp_path / "elsewhere")
    relative = not path.startswith(("/", "file:", "s3:"))
    with lake.writing() as connection:
        connection.execute(sa.update(c.DATA_FILE).values(path=path, path_is_relative=relative))
    with pytest.raises(PathOutsideLake) as raised:
        lake.read("t")
    assert raised.value.hint
    with pytest.raises(PathOutsideLake):
        lake.describe_files(lake.table("t"), [f"main/t/{path}" if relative else path])
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("t"))
    lake.expire(datetime.now(UTC) + timedelta(days=1))
    with contextlib.suppress(PathOutsideLake):
        lake.vacuum(grace=timedelta(0))
    assert (tmp_path / "elsewhere" / "secret.parquet").exists()
    assert (tmp_path / "lake" / "secret.parquet").exists()
    assert Path("/etc/hostname").exists()


def test_a_linked_file_that_leads_outside_is_refused(tmp_path):
    lake = filled(tmp_path / "lake")
    (file,) = (tmp_path / "lake" / "data" / "main" / "t").glob("*.parquet")
    file.rename(tmp_path / "stolen.parquet")
    file.symlink_to(tmp_path / "stolen.parquet")
    with pytest.raises(PathOutsideLake):
        lake.read("t")


def test_calls_that_name_files_outside_are_refused(lake_url, tmp_path):
    lake = filled(lake_url)
    table = lake.table("t")
    (tmp_path / "outside.parquet").write_bytes(b"x")
    before = lake.snapshot()
    good = lake.write(table, lake.read("t"))
    for path in ("../../outside.parquet", str(tmp_path / "outside.parquet"), "s3://bucket/x.parquet", "main/t/../../../outside.parquet"):
        with pytest.raises(PathOutsideLake):
            lake.describe_files(table, [path])
        with pytest.raises(PathOutsideLake), lake.commit("evil") as commit:
            commit.append(table, [replace(good, path=path)])
    assert lake.snapshot() == before
