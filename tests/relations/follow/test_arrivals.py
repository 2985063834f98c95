"""Row ids and arrival times of streams as Arrow: what each append's commit said, wherever its rows are now."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.lake.ring.history import read_history
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.ranges import arrow_rows_of, read_range, read_range_with_history

HIDDEN = ("_row_id", "_arrived_at")
STEPS = st.lists(st.integers(1, 6) | st.sampled_from(["merge", "merge the history"]), min_size=1, max_size=14)


def append(platform, first, count):
    with platform.stream("posts") as stream:
        return stream.append([{"n": first + place} for place in range(count)], wait=True).result().committed_at


@settings(max_examples=12)
@given(steps=STEPS)
def test_rows_keep_their_ids_and_times_through_merges_and_histories(tmp_path_factory, steps):
    with Platform.create(tmp_path_factory.mktemp("arrivals") / "lake") as platform:
        lake = platform.lake
        platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 8)")
        platform.execute("CREATE TABLE old AS HISTORY OF posts")
        expected = []
        for step in steps:
            if isinstance(step, int):
                at = append(platform, len(expected), step)
                expected += [(number, number, at) for number in range(len(expected), len(expected) + step)]
            else:
                lake.merge("posts" if step == "merge" else "old")
            snapshot, stream = lake.snapshot(), lake.table("posts")
            with lake.reading() as connection:
                history = read_history(connection, stream, snapshot.id)
            found = arrow_rows_of(lake, read_range_with_history(lake, stream, history, snapshot, 0, view="v"), ["n"], hidden=HIDDEN)
            assert found.column_names == ["n", *HIDDEN]
            assert sorted(zip(*found.to_pydict().values(), strict=True)) == expected


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (n BIGINT)")
        yield made


def test_deleted_rows_take_their_ids_with_them(platform):
    at = append(platform, 0, 5)
    lake, stream = platform.lake, platform.lake.table("posts")
    (file,) = lake.scan(stream, lake.snapshot()).files
    with lake.commit("delete") as commit:
        commit.delete(stream, {file.id: write_delete_file(lake.storage, stream, file.path, pa.array([0, 3]))})
    found = arrow_rows_of(lake, read_range(lake, stream, lake.snapshot(), 0, view="v"), [], hidden=HIDDEN)
    assert found.to_pydict() == {"_row_id": [1, 2, 4], "_arrived_at": [at] * 3}


def test_only_what_is_asked_for_is_there(platform):
    append(platform, 0, 2)
    tail = read_range(platform.lake, platform.lake.table("posts"), platform.lake.snapshot(), 0, view="v")
    assert arrow_rows_of(platform.lake, tail, ["n"], hidden=["_row_id"]).to_pydict() == {"n": [0, 1], "_row_id": [0, 1]}
    assert arrow_rows_of(platform.lake, tail, ["n"]).column_names == ["n"]


def test_an_empty_range_has_the_columns(platform):
    tail = read_range(platform.lake, platform.lake.table("posts"), platform.lake.snapshot(), 0, view="v")
    found = arrow_rows_of(platform.lake, tail, ["n"], hidden=HIDDEN)
    assert (found.num_rows, found.schema.types) == (0, [pa.int64(), pa.int64(), pa.timestamp("us", "UTC")])


def test_a_column_that_was_given_a_hidden_name_later_is_not_the_hidden_one(platform):
    at = append(platform, 0, 1)
    platform.execute("ALTER STREAM posts ADD COLUMN _arrived_at STRING")
    tail = read_range(platform.lake, platform.lake.table("posts"), platform.lake.snapshot(), 0, view="v")
    found = arrow_rows_of(platform.lake, tail, ["n", "_arrived_at"], hidden=["_arrived_at"])
    assert found.to_pydict() == {"n": [0], "_arrived_at": [at]}
