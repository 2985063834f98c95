"""The tables of picks: made where they are missing, and read as if they were empty until then."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from platform_plugin.lake.migrations.picks import add_pick_tables
from platform_plugin.relations.samples.record import SAMPLE
from platform_plugin.relations.samples.reservoir.picks import ENDED_PICK, PICK, live_picks, unmerged_picks

ROW = {"sample_uuid": "s", "next_row_id": 9, "strata": "[]", "rows": b"rows"}


@pytest.fixture(autouse=True)
def no_tables(lake):
    """Whatever this process has imported, the lake has none of the tables."""
    with lake.writing() as connection:
        for table in (SAMPLE, PICK, ENDED_PICK):
            table.drop(connection, checkfirst=True)


def rows(connection, table):
    return sorted(tuple(row) for row in connection.execute(sa.select(table)))


def test_picks_that_have_ended_go_apart(lake):
    with lake.writing() as connection:
        SAMPLE.create(connection)
        PICK.create(connection)
        ended = {**ROW, "first_row_id": 0, "begin_snapshot": 1, "end_snapshot": 4}
        live = {**ROW, "first_row_id": 5, "begin_snapshot": 2, "end_snapshot": None}
        connection.execute(sa.insert(PICK), [ended, live])
        add_pick_tables(connection)
        assert rows(connection, PICK) == [tuple(live[column.name] for column in PICK.c)]
        assert rows(connection, ENDED_PICK) == [tuple(ended[column.name] for column in ENDED_PICK.c)]
        add_pick_tables(connection)
        assert len(rows(connection, ENDED_PICK)) == 1


def test_a_lake_without_samples_gets_no_tables(lake):
    with lake.writing() as connection:
        add_pick_tables(connection)
        assert not sa.inspect(connection).has_table(PICK.name)


def test_missing_tables_are_read_as_empty_ones(lake):
    asked = {"sample": "s", "version": 3}
    with lake.reading() as connection:
        assert connection.execute(live_picks(connection), asked).all() == []
        assert connection.execute(sa.select(unmerged_picks(connection))).all() == []
    with lake.writing() as connection:
        PICK.create(connection)
        connection.execute(sa.insert(PICK).values(**ROW, first_row_id=0, begin_snapshot=1, end_snapshot=4))
    with lake.reading() as connection:
        assert len(connection.execute(live_picks(connection), asked).all()) == 1
        assert connection.execute(live_picks(connection), {**asked, "version": 4}).all() == []
