"""Stores for tests: what is added to them, and what they should have by plain Python."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.state.arrangement import WEIGHT, arrangement, arrangement_fields
from platform_plugin.state.rewriting import find_rewrites

FIELDS = (
    Field(name="uid", type=Primitive("int64")),
    Field(name="word", type=Primitive("varchar")),
    Field(name="n", type=Primitive("int32")),
)


def compact(lake, store):
    """Do what is due in a store; whether something was."""
    snapshot = lake.snapshot()
    due = find_rewrites(lake, snapshot, [store])
    for rewrite in due:
        with lake.commit("compact", base=snapshot) as commit:
            commit.replace(store.table, rewrite.replaces, rewrite.write(lake, rewrite.merge(lake)))
    return bool(due)


class Arranged:
    """An arrangement in a lake, and the Counter of rows that it should have."""

    def __init__(self, lake, *, keys=("uid",), name="arranged", **options):
        self.lake, self.rows = lake, Counter()
        with lake.commit("create") as commit:
            made = commit.create_table(name, arrangement_fields(FIELDS))
        self.store = arrangement(lake.table(made.name), keys, **options)

    def table(self, weights):
        """Signed rows as Arrow, from a Counter."""
        columns = list(zip(*((*row, weight) for row, weight in weights.items()), strict=True)) or [()] * 4
        fields = [field for field in self.store.fields if field.name != WEIGHT]
        return pa.table([*(pa.array(column) for column in columns)], names=[*(field.name for field in fields), WEIGHT]).cast(
            arrow_schema(self.store.fields)
        )

    def add(self, weights):
        """Add signed rows, as a commit of its own."""
        with self.lake.commit("add") as commit:
            commit.append(self.store.table, [self.store.add(self.lake, self.table(weights))])
        for row, weight in weights.items():
            self.rows[row] += weight

    def compact(self):
        """Do what is due; whether something was."""
        return compact(self.lake, self.store)

    def files(self):
        return self.lake.scan(self.store.table, self.lake.snapshot()).files


def counted(table):
    """Rows with weights as a Counter."""
    found = Counter()
    for row in table.to_pylist():
        found[tuple(row[field.name] for field in FIELDS)] += row[WEIGHT]
    return found
