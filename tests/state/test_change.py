"""A change added to the bag of rows of one snapshot gives that of another: netted from any steps, and read from any history."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.conditions import compare
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.lake import Lake
from platform_plugin.state.change import CHANGE_COLUMNS, net_rows, read_change
from tests.lake.agreement import append, create, rows_of
from tests.lake.changing import end_rows, rows_by_id

VALUES = st.integers(0, 2) | st.none()


def table_of(steps):
    names = [*CHANGE_COLUMNS, "n", "l"]
    columns = [[step[place] for step in steps] for place in range(4)]
    lists = pa.array([None if step[3] is None else [step[3]] for step in steps], pa.list_(pa.int64()))
    return pa.table([*(pa.array(column, pa.int64()) for column in columns), lists], names=names)


@st.composite
def histories(draw):
    """Steps of a table that began with some rows: its rows before, the steps in any order, and its rows after."""
    before = draw(st.dictionaries(st.integers(0, 5), VALUES, max_size=5))
    rows, steps, following = dict(before), [], 10
    for snapshot in range(1, draw(st.integers(1, 6))):
        # At most one change of a row in a snapshot, as in a commit.
        for chosen in draw(st.lists(st.sampled_from([*rows, -1]), max_size=4, unique=True)):
            row_id = following if chosen == -1 else chosen
            if chosen == -1:
                rows[row_id] = draw(VALUES)
                following += 1
                steps.append((row_id, snapshot, 1, rows[row_id]))
                continue
            steps.append((row_id, snapshot, -1, rows.pop(row_id)))
            if draw(st.booleans()):
                rows[row_id] = draw(VALUES)
                steps.append((row_id, snapshot, 1, rows[row_id]))
    return before, draw(st.permutations(steps)), rows


@given(histories())
def test_netted_steps_are_the_difference_of_the_bags(history):
    before, steps, after = history
    found = net_rows(table_of(steps)).to_pylist()
    expected = [(row_id, -1, before[row_id]) for row_id in before if row_id not in after or after[row_id] != before[row_id]]
    expected += [(row_id, 1, after[row_id]) for row_id in after if row_id not in before or after[row_id] != before[row_id]]
    assert sorted(((row["_row_id"], row["_weight"], row["n"]) for row in found), key=repr) == sorted(expected, key=repr)
    bag = Counter(before.values())
    for row in found:
        bag[row["n"]] += row["_weight"]
    assert +bag == Counter(after.values())
    assert net_rows(net_rows(table_of(steps))).num_rows == len(found)


def test_rows_that_only_came_are_left_as_they_are():
    steps = table_of([(2, 1, 1, 5), (1, 1, 1, 5)])
    assert net_rows(steps) is steps
    assert net_rows(table_of([])).num_rows == 0


def rows(lake, change, **options):
    return sorted(((row[0], row[2], *row[3:]) for row in rows_of(change.rows(lake, **options))), key=repr)


def plan(lake, name, after, until=None, **options):
    with lake.reading() as connection:
        until = until or lake.snapshot()
        return read_change(connection, lake.table(name, until), after=after, until=until, **options)


@pytest.fixture
def lake(tmp_path):
    with Lake.create(f"platform+local://{tmp_path}/lake") as made:
        yield made


def test_a_change_is_planned_from_the_catalogue_and_read_later(lake):
    table = create(lake, "t", pa.table({"id": range(50), "n": [1] * 50}))
    start = lake.snapshot()
    assert plan(lake, "t", start).is_empty
    append(lake, table, pa.table({"id": [100], "n": [1]}))
    change = plan(lake, "t", start)
    assert (change.is_append_only, change.row_count, len(change.files or ())) == (True, 1, 1)
    assert (change.relation.name.relation, change.after, change.until) == ("t", start, lake.snapshot())
    end_rows(lake, table, [3, 100], images=True, new={"n": 2})
    change = plan(lake, "t", start)
    assert (change.is_append_only, change.files) == (False, None)
    assert rows(lake, change) == [(3, -1, 3, 1), (3, 1, 3, 2), (50, 1, 100, 2)]
    assert rows(lake, change, columns=["id"]) == [(50, 1, 100)]
    assert rows(lake, plan(lake, "t", start, where=compare("n", "=", 2)), columns=["id"]) == [(3, 1, 3), (50, 1, 100)]
    assert change.rows(lake).column_names == [*CHANGE_COLUMNS, "id", "n"]
    assert change.row_count >= 3
    assert change.size_bytes > 0


def test_the_change_of_a_stream_is_what_came_also_where_it_has_left(lake, tmp_path, duck):
    with lake.commit("declare") as commit:
        stream = commit.create_table("s", lake.columns_of(pa.table({"id": [1]})))
        declare_relation(commit, stream, Declaration(kind="stream", options={"retention_rows": 4, "overrun_grace_seconds": 3600}))
    start = lake.snapshot()
    with lake.lease(start):
        for number in range(6):
            append(lake, stream, pa.table({"id": [2 * number, 2 * number + 1]}))
        assert len(rows_by_id(duck(f"platform+local://{tmp_path}/lake"), "s", lake.snapshot().id)) < 12
        change = plan(lake, "s", start)
        assert change.is_append_only
        assert rows(lake, change) == sorted(((number, 1, number) for number in range(12)), key=repr)
