"""What stored queries need of their relations is not taken from them by any commit, whatever it was based on."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CommitConflict, InvalidValue
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.lake.commit.dependents import AddDependent, Need, RemoveDependent, find_protector
from tests.lake.agreement import append, create

ROWS = pa.table({"id": [1, 2], "region": ["DE", "US"], "age": [30, 40]})


def depend(lake, base=None, **need):
    table = lake.table("users", base)
    with lake.commit("a view", base=base) as commit:
        uuid = commit.create_view("v", "SELECT region FROM users")
        commit.also(AddDependent(uuid, (Need(relation=table, **need),)))
    (view,) = lake.views()
    return table, view


def changed(lake, *changes, base=None):
    with lake.commit("change", base=base) as commit:
        for change in changes:
            change(commit)


def replaced(lake, rows):
    with lake.commit("replace") as commit:
        commit.drop_table(lake.table("users"))
        commit.create_table("users", lake.columns_of(rows))


@pytest.fixture
def users(lake):
    return create(lake, "users", ROWS)


def test_a_name_and_the_columns_that_are_read_stay(lake, users):
    table, view = depend(lake, columns=("region",))
    for change in (
        lambda commit: commit.drop_table(table),
        lambda commit: commit.rename_table(table, "people"),
        lambda commit: commit.drop_column(table, "region"),
        lambda commit: commit.rename_column(table, "region", to="area"),
    ):
        with pytest.raises(InvalidValue, match=r'can\'t be dropped or renamed: view "main.v" reads it'):
            changed(lake, change)
    with lake.commit("what nobody reads") as commit:
        commit.drop_column(table, "age")
        commit.rename_column(table, "id", to="uid")
    append(lake, lake.table("users"), pa.table({"uid": [3], "region": ["FR"]}))
    with lake.commit("drop both") as commit:
        commit.drop_view(view)
        commit.also(RemoveDependent(view))
        commit.drop_table(lake.table("users"))


def test_another_relation_may_take_the_name_if_it_has_the_columns(lake, users):
    depend(lake, columns=("region",))
    with pytest.raises(InvalidValue):
        replaced(lake, pa.table({"id": [1]}))
    replaced(lake, pa.table({"region": ["DE"]}))
    with pytest.raises(InvalidValue), lake.commit("drop the new one") as commit:
        commit.drop_table(lake.table("users"))


def test_what_is_needed_itself_can_not_be_replaced(lake, users):
    table, _ = depend(lake, columns=("region",), itself=True)
    with pytest.raises(InvalidValue, match="can't be dropped or renamed"):
        replaced(lake, ROWS)
    old, new = (
        lambda commit: commit.rename_column(table, "region", to="old"),
        lambda commit: commit.rename_column(table, "age", to="region"),
    )
    with pytest.raises(InvalidValue, match='column "region" of table'):
        changed(lake, old, new)


def test_rows_that_may_not_change_do_not_for_an_older_base_either(lake, users):
    before = lake.snapshot()
    table, _ = depend(lake, rows=True, itself=True)
    assert str(find_protector_now(lake, table)) == "main.v"
    added = lake.write(table, ROWS)
    for change in (
        lambda commit: commit.append(table, [added]),
        lambda commit: commit.remove(table, [file.id for file in lake.scan(table, before).files]),
        lambda commit: commit.drop_table(table),
        lambda commit: commit.rename_table(table, "people"),
        lambda commit: commit.allow_null(table, "region"),
    ):
        for base in (before, None):
            with pytest.raises(InvalidValue, match=r'"main\.users" can\'t be changed: view "main\.v" looks it up'):
                changed(lake, change, base=base)
    with lake.commit("say what it is") as commit:
        commit.comment(table, "who they are")


def find_protector_now(lake, table):
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        return find_protector(connection, table, snapshot.id)


def test_a_view_is_not_made_over_what_has_gone_meanwhile(lake, users):
    base = lake.snapshot()
    changed(lake, lambda commit: commit.rename_column(users, "region", to="area"))
    with pytest.raises(CommitConflict, match="was altered, renamed or dropped"):
        depend(lake, base, columns=("region",))
    assert lake.views() == []


def test_a_view_that_another_client_dropped_needs_nothing(lake, users):
    table, view = depend(lake, rows=True)
    assert isinstance(view, View)
    with lake.commit("as another client would, without our notes") as commit:
        commit.drop_view(view)
    append(lake, table, ROWS)
    assert find_protector_now(lake, table) is None


def test_a_commit_asks_as_little_with_many_views_as_with_one(lake, users):
    def statements(row):
        asked = []

        def note(*given):
            asked.append(given[2])

        sa.event.listen(lake.engine, "before_cursor_execute", note)
        try:
            append(lake, users, row)
        finally:
            sa.event.remove(lake.engine, "before_cursor_execute", note)
        return len(asked)

    depend(lake, columns=("region",))
    first = statements(ROWS)
    with lake.commit("views") as commit:
        for number in range(30):
            uuid = commit.create_view(f"v{number}", "SELECT region FROM users")
            commit.also(AddDependent(uuid, (Need(relation=users, columns=("region",)),)))
    assert statements(ROWS) == first
