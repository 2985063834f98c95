"""Names, texts and numbers of columns at their limits: taken whole, or refused with the limit."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from platform_plugin.algebra.predicates.conditions import compare
from platform_plugin.errors import InvalidValue, ObjectExists
from tests.lake.hundred_rows import ROWS, append_rows

NAMES = [
    'it\'s "quoted"',
    " ",
    "a b",
    "a.b",
    "../up",
    "💥",
    "Straße",
    "select",
    "a/b",
    "null",
    "%s",
    "{x}",
    "x;DROP TABLE t;--",
    "`",
    "n" * 255,
    "CON",
    "-",
]


def test_any_name_can_be_given_to_anything(lake):
    rows = pa.table({name: [1] for name in NAMES})
    for name in NAMES:
        with lake.commit(name, author=name) as commit:
            commit.create_schema(name)
        with lake.commit(name) as commit:
            table = commit.create_table((name, name), lake.columns_of(rows), comment=name)
            commit.append(table, [lake.write(table, rows)])
        assert lake.read((name, name)).equals(rows)
        assert lake.read((name, name), columns=[name], where=compare(name, "=", 1)).num_rows == 1
        assert lake.table((name, name)).comment == name
        assert lake.commits()[-1].message == name
    for path, _ in lake.storage.listing():
        assert ".." not in path.split("/")
    lake.vacuum(grace=timedelta(0))
    for name in NAMES:
        assert lake.read((name, name)).equals(rows)


@pytest.mark.parametrize(
    "name", ["", "zero\0", "half \ud83d", "x" * 256, "ü" * 128], ids=["empty", "zero", "surrogate", "long", "long in bytes"]
)
def test_names_that_nothing_can_have(lake, name):
    columns = lake.columns_of(ROWS)
    with lake.commit("create") as commit:
        table = commit.create_table("t", columns)
    before = lake.snapshot()
    bad_column = [replace(columns[0], name=name)]
    for do in (
        lambda k: k.create_schema(name),
        lambda k: k.create_table(name, columns),
        lambda k: k.create_table("x", bad_column),
        lambda k: k.rename_table(table, name),
        lambda k: k.rename_column(table, "id", to=name),
        lambda k: k.add_column(table, bad_column[0]),
        lambda k: k.create_view(name, "SELECT 1"),
    ):
        with pytest.raises(InvalidValue) as raised, lake.commit("bad") as commit:
            do(commit)
        str(raised.value).encode()
        assert raised.value.hint
    assert lake.snapshot() == before


def test_names_that_differ_only_in_case_are_one(lake):
    with lake.commit("create") as commit:
        table = commit.create_table("Users", lake.columns_of(ROWS))
    for do in (
        lambda k: k.create_table("USERS", lake.columns_of(ROWS)),
        lambda k: k.create_view("users", "SELECT 1"),
        lambda k: k.create_table("x", lake.columns_of(pa.table({"a": [1], "A": [2]}))),
        lambda k: k.add_column(table, lake.columns_of(pa.table({"ID": [1]}))[0]),
    ):
        with pytest.raises((ObjectExists, InvalidValue)), lake.commit("again") as commit:
            do(commit)


def test_long_comments_and_texts(lake):
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
    long = "ü💥'\"" * 250_000
    with lake.commit(long[:100_000]) as commit:
        commit.comment(table, long)
        commit.comment(table, long, column=("id",))
    assert lake.table("t").comment == long
    assert lake.table("t").fields[0].comment == long


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_columns(lake):
    rows = pa.table({f"c{i}": pa.array([i, i + 1]) for i in range(10_000)})
    steps = {}

    def timed(name, step):
        started = time.process_time()  # a busy machine makes everything slow, quadratic time only this
        result = step()
        steps[name] = round(time.process_time() - started, 2)
        return result

    def create():
        with lake.commit("create") as commit:
            return commit.create_table("t", lake.columns_of(rows))

    timed("create", create)
    timed("append", lambda: append_rows(lake, rows))
    timed("append again", lambda: append_rows(lake, rows))
    assert timed("read", lambda: lake.read("t")).num_rows == 4
    assert timed("prune", lambda: lake.read("t", columns=["c7"], where=compare("c7", "=", 7))).num_rows == 2
    timed("merge", lambda: lake.merge("t"))
    assert lake.read("t").num_rows == 4
    print(steps)
    assert sum(steps.values()) < 60
