"""A stream evicts rows that its samples have picked, whatever its writers keep in memory."""

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.lake.cursors.cursor import CURSOR
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.samples.reservoir import sample_list
from platform_plugin.relations.samples.reservoir.picks import PICK
from platform_plugin.relations.samples.reservoir.release import find_release
from tests.relations.samples.streams import counted_keys, ids, rows

COLUMNS = "id INT, kind STRING, score INT"
APPENDS = 40


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM short ({COLUMNS}) WITH (retention_rows = 10)")
        made.execute("CREATE SAMPLE s ON short SIZE 4 WITH (seed = 2)")
        yield made


def check(platform):
    """The stream has let go of most rows, and the sample is the one of all of them."""
    assert platform.lake.read("short").num_rows < 200
    keys = counted_keys(2, 0, APPENDS * 10)
    assert ids(platform, "s") == sorted(sorted(range(APPENDS * 10), key=lambda row: keys[row])[:4])
    with platform.lake.reading() as connection:
        assert connection.execute(sa.select(CURSOR.c.position)).scalar() >= 160


def put(platform, start):
    with platform.stream("short") as stream:
        stream.append(rows(start, start + 10), wait=True)


def put_all(platform):
    for start in range(0, APPENDS * 10, 10):
        put(platform, start)


def test_a_stream_lets_go_of_rows_that_were_picked(platform):
    put_all(platform)
    check(platform)


@pytest.mark.usefixtures("no_cache")
def test_the_same_without_a_cache(platform):
    put_all(platform)
    assert not sample_list._STREAMS.entries
    check(platform)


def test_the_same_when_each_append_comes_from_a_writer_of_its_own(platform, tmp_path):
    for start in range(0, APPENDS * 10, 10):
        sample_list._STREAMS.clear()
        with Platform.open(tmp_path / "lake") as writer:
            put(writer, start)
    check(platform)


@settings(max_examples=30)
@given(
    spans=st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=12),
    seen=st.integers(0, 12),
)
def test_a_cursor_moves_over_picks_up_to_the_first_gap(catalogue, spans, seen):
    lake, stream, sample = catalogue
    row, covered, starts = 0, set(), []
    with lake.writing() as connection:
        connection.execute(sa.delete(PICK))
        connection.execute(sa.update(CURSOR).values(position=seen))
        for width, is_picked in spans:
            if is_picked:
                starts.append(row)
                covered.update(range(row, row + width))
                connection.execute(
                    sa.insert(PICK).values(sample_uuid=sample, first_row_id=row, begin_snapshot=1, next_row_id=row + width, strata="[]")
                )
            row += width
    # A cursor stands at the edge of an append; from within one it moves nowhere.
    reached = seen
    while seen in starts and reached in covered:
        reached += 1
    with lake.reading() as connection:
        release = find_release(connection, stream)
    assert release.cursors == ({} if reached == seen else {sample: reached})
    assert release.appends == len([start for start in starts if seen <= start < reached])


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    """A lake with a stream and a sample, whose picks and cursor a test sets."""
    with Platform.create(tmp_path_factory.mktemp("picks") / "lake") as made:
        made.execute(f"CREATE STREAM short ({COLUMNS})")
        made.execute("CREATE SAMPLE s ON short SIZE 4")
        table = made.lake.table("s")
        assert find_sample(made.lake, table, made.lake.snapshot()) is not None
        yield made.lake, made.lake.table("short").uuid, str(table.uuid)
