"""Data files and delete files that are missing, damaged, swapped or foreign: an error that names the file, never other rows."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.errors import InvalidValue, PlatformError, StorageError
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.lake.lake import Lake

ROWS = pa.table({"id": pa.array(range(500), pa.int64()), "word": [f"word {i * 7919 % 500}" for i in range(500)]})


@pytest.fixture
def local(tmp_path):
    with Lake.create(tmp_path / "lake") as lake:
        with lake.commit("load") as commit:
            table = commit.create_table("t", lake.columns_of(ROWS))
            commit.append(table, [lake.write(table, ROWS)])
        yield lake


def data_files(lake, ending=".parquet"):
    return sorted(path for path in Path(lake.storage.root).rglob(f"*{ending}") if ending != ".parquet" or "-delete" not in path.name)


def delete_some(lake):
    table = lake.table("t")
    (file,) = lake.scan(table, lake.snapshot()).files
    with lake.commit("delete") as commit:
        commit.delete(table, {file.id: write_delete_file(lake.storage, table, file.path, pa.array(range(0, 500, 2)))})


def reads_or_says_why(lake, expected):
    """True if the rows are right, False if there was an error that names a file; anything else fails."""
    try:
        rows = lake.read("t")
    except StorageError as error:
        assert '"main/t/' in error.message  # noqa: PT017
        assert error.hint  # noqa: PT017
        return False
    assert rows.equals(expected)
    return True


@pytest.mark.parametrize("ending", [".parquet", "-delete.parquet"])
def test_a_flipped_bit_never_gives_other_rows(local, ending):
    delete_some(local)
    expected = local.read("t")
    (file,) = data_files(local, ending)
    whole = file.read_bytes()
    # What follows the pages has no checksum in the Parquet format; a flip there may go unseen where it does no harm.
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    chance = random.Random(7)
    noticed = 0
    places = chance.sample(range(4, len(whole) - footer), min(250, len(whole) - footer - 4))
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        noticed += not reads_or_says_why(local, expected)
    assert noticed > len(places) * 0.5
    file.write_bytes(whole)
    assert local.read("t").equals(expected)


@pytest.mark.parametrize("ending", [".parquet", "-delete.parquet"])
def test_a_damaged_footer_raises_no_error_but_ours(local, ending):
    # Parquet has no checksum for it: a flip in a column's field id makes another column of it, and nothing can tell.
    delete_some(local)
    (file,) = data_files(local, ending)
    whole = file.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    chance, refused = random.Random(11), 0
    for place in chance.sample(range(len(whole) - footer, len(whole)), min(200, footer)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        try:
            local.read("t")
        except PlatformError:
            refused += 1
    assert refused, "some flips are such that nothing can be read"


@pytest.mark.parametrize("ending", [".parquet", "-delete.parquet"])
def test_a_truncated_file_is_named(local, ending):
    delete_some(local)
    expected = local.read("t")
    (file,) = data_files(local, ending)
    whole = file.read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:size])
        assert not reads_or_says_why(local, expected)
    file.unlink()
    assert not reads_or_says_why(local, expected)
    with pytest.raises(StorageError):
        local.merge("t")


@pytest.mark.parametrize("ending", [".parquet", "-delete.parquet"])
def test_swapped_files_are_noticed(local, ending):
    table = local.table("t")
    with local.commit("more") as commit:
        commit.append(table, [local.write(table, ROWS)])
    with local.commit("delete") as commit:
        for at, file in enumerate(local.scan(table, local.snapshot()).files):
            commit.delete(table, {file.id: write_delete_file(local.storage, table, file.path, pa.array([at]))})
    one, other = data_files(local, ending)
    one.rename(one.with_suffix(".x"))
    other.rename(one)
    one.with_suffix(".x").rename(other)
    with pytest.raises(StorageError, match="is not the one that was committed"):
        local.read("t")


def with_ids(**columns):
    """A file's columns: name to (values, type, field id)."""
    fields = [
        pa.field(name, kind, metadata=None if field_id is None else {b"PARQUET:field_id": str(field_id).encode()})
        for name, (_, kind, field_id) in columns.items()
    ]
    return pa.Table.from_arrays([pa.array(values, kind) for values, kind, _ in columns.values()], schema=pa.schema(fields))


FOREIGN = {
    "no ids": with_ids(id=([1], pa.int64(), None), word=(["a"], pa.string(), None)),
    "one without id": with_ids(id=([1], pa.int64(), 1), word=(["a"], pa.string(), None)),
    "other columns": with_ids(x=([1], pa.int64(), 17)),
    "wrong type": with_ids(id=(["1"], pa.string(), 1), word=(["a"], pa.string(), 2)),
    "wider type": with_ids(id=([1.5], pa.float64(), 1), word=(["a"], pa.string(), 2)),
    "ids swapped": with_ids(id=([1], pa.int64(), 2), word=(["a"], pa.string(), 1)),
    "an id twice": with_ids(id=([1], pa.int64(), 1), word=([2], pa.int64(), 1)),
    "nested": with_ids(id=([[1]], pa.list_(pa.int64()), 1)),
}


@pytest.mark.parametrize("kind", list(FOREIGN))
def test_a_file_that_does_not_fit_the_table_is_refused(local, kind):
    path = Path(local.storage.root) / "main/t/foreign.parquet"
    pq.write_table(FOREIGN[kind], path)
    before = local.snapshot()
    with pytest.raises(StorageError, match=r"main/t/foreign\.parquet") as raised:
        local.describe_files(local.table("t"), ["main/t/foreign.parquet"])
    assert raised.value.hint
    assert local.snapshot() == before


def test_a_file_that_takes_another_s_place_is_refused_when_it_is_read(local):
    (file,) = data_files(local)
    for foreign in FOREIGN.values():
        pq.write_table(foreign, file)
        with pytest.raises(StorageError, match="is not the one that was committed"):
            local.read("t")


def test_bad_positions_are_refused_before_they_hide_a_table(local):
    table = local.table("t")
    (file,) = local.scan(table, local.snapshot()).files
    before = local.snapshot()
    with pytest.raises(InvalidValue):
        write_delete_file(local.storage, table, file.path, pa.array([-1]))
    with pytest.raises(InvalidValue), local.commit("delete") as commit:
        commit.delete(table, {file.id: write_delete_file(local.storage, table, file.path, pa.array([500]))})
    assert local.snapshot() == before
    assert local.read("t").equals(ROWS)


def test_rows_that_can_not_be_written_leave_no_file(local):
    table = local.table("t")
    before = data_files(local)

    def broken():
        yield from ROWS.to_batches(max_chunksize=100)
        raise RuntimeError("the source ended early")

    bad = [
        pa.table({"id": ["x"]}),
        pa.table({"nonsense": [1]}),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]),
        pa.table({"id": [2**63]}, schema=pa.schema([("id", pa.uint64())])),
    ]
    for rows in bad:
        with pytest.raises(PlatformError):
            local.write(table, rows)
    with pytest.raises(RuntimeError):
        local.write(table, pa.RecordBatchReader.from_batches(ROWS.schema, broken()))
    with pytest.raises(PlatformError):
        local.write(replace(table, path="../outside/"), ROWS)
    assert data_files(local) == before
