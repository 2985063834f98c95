"""A store merges what is added to it: all of it, or little into much; compaction changes no row of it, at no snapshot."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.engine.kernel_run import check_fields
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.lake.read.read import read_file, read_rows
from platform_plugin.lake.values.types import from_arrow
from platform_plugin.state import compaction as compacting
from platform_plugin.state import merged
from platform_plugin.state import store as storing
from platform_plugin.state.arrangement import WEIGHT
from platform_plugin.state.merged import is_merged, read_merged
from platform_plugin.state.rewriting import find_rewrites
from platform_plugin.state.store import ADDRESS, Store
from platform_plugin.state.stored_file import read_place
from tests.engine.arrow.test_plans import table
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import ROWS, bag, split
from tests.state.stores import Arranged, counted


def test_groups_that_get_nothing_stay_and_the_others_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "_MANY_GROUPS", 1)
    monkeypatch.setattr(storing, "_FEW", 0)
    tried = set()
    for name, text in ADMITTED.items():
        plan = split(text)
        for part in plan.streams:
            state, stream = plan.state(part.state), part.stream.split(".")[-1]
            if part.statics or part.row_id or len(state.keys) != 1:
                continue
            try:
                before, after = (run_plan(part.query, {part.stream: table(stream, rows)}) for rows in (ROWS[stream][:6], ROWS[stream][6:]))
                whole = run_plan(state.merge, {"rows": pa.concat_tables([before, after])})
            except RefusedByEngine:
                continue
            held = Table(id=1, uuid=None, name=Name.of("t"), path="t/", fields=from_arrow(before.schema))  # type: ignore[arg-type]
            store = Store(table=held, keys=tuple(key.name for key in state.keys), merge=state.merge)
            found = store.merge_into(before, [after])
            assert bag([tuple(row.values()) for row in found.to_pylist()]) == bag([tuple(row.values()) for row in whole.to_pylist()]), name
            tried.add(name)
    assert len(tried) >= 15


def test_a_store_reads_the_same_at_every_snapshot_however_it_was_compacted(lake, monkeypatch):
    # Parts of a few hundred bytes, so that few rows are divided.
    monkeypatch.setattr(compacting, "_PART_BYTES", 4_000)
    monkeypatch.setattr(compacting, "_LARGE_BYTES", 8_000)
    arranged = Arranged(lake)
    history = []
    for number in range(60):
        arranged.add(
            {(7 * number + place, "x" * place, 1): 1 for place in range(20)}
            | {(number % 3, "same", 1): 1, (number - 1, "gone", 0): -1, (number, "gone", 0): 1}
        )
        arranged.compact()
        history.append((lake.snapshot(), Counter(arranged.rows)))
    prefixes = {read_place(file.path).prefix for file in arranged.files()}
    assert max(map(len, prefixes)) >= 2, "the base is divided"
    assert any(read_place(file.path).is_base for file in arranged.files())
    for snapshot, rows in history[::-7]:
        found = read_merged(lake, arranged.store, lake.scan(arranged.store.table, snapshot))
        assert counted(found) == Counter({row: weight for row, weight in rows.items() if weight})
        assert len(found) == len(counted(found))
    for file in arranged.files():
        first, end = read_place(file.path).addresses
        addresses = read_file(lake, arranged.store.table, file, lake.snapshot())[0].column(ADDRESS).to_numpy()
        assert addresses.min() >= first
        assert addresses.max() < end
        assert (addresses[1:] >= addresses[:-1]).all()


def test_after_a_first_read_only_what_was_added_is_read(lake, monkeypatch):
    arranged, read = Arranged(lake), []
    monkeypatch.setattr(merged, "read_rows", lambda lake, scan, **more: read.append(len(scan.files)) or read_rows(lake, scan, **more))

    def rows():
        snapshot = lake.snapshot()
        return counted(read_merged(lake, arranged.store, lake.scan(arranged.store.table, snapshot)))

    for number in range(4):
        arranged.add({(number, "x", 1): 1})
    assert rows() == +arranged.rows
    for number in range(30):
        arranged.add({(number, "x", 1): 1})
        arranged.compact()
    assert rows() == +arranged.rows
    assert rows() == +arranged.rows
    assert read == [4, 30]
    # Whatever does not add to the store makes what is known of it worth nothing.
    removed = arranged.files()[0]
    with lake.commit("remove a file") as commit:
        commit.remove(arranged.store.table, [removed.id])
    rows()
    assert read[2:] == [len(arranged.files())]


def test_a_compaction_that_lost_a_race_is_a_conflict(lake):
    arranged = Arranged(lake)
    for number in range(8):
        arranged.add({(number, "x", 1): 1})
    snapshot = lake.snapshot()
    (due,) = find_rewrites(lake, snapshot, [arranged.store])
    files = due.write(lake, due.merge(lake))
    assert arranged.compact()
    with pytest.raises(Exception, match="it works on were removed or merged"), lake.commit("late", base=snapshot) as commit:
        commit.replace(arranged.store.table, due.replaces, files)
    assert counted(read_merged(lake, arranged.store, lake.scan(arranged.store.table, lake.snapshot()))) == +arranged.rows
    assert is_merged(arranged.files())


def test_rows_whose_weights_cancel_leave_nothing(lake):
    arranged = Arranged(lake)
    for number in range(8):
        arranged.add({(1, "x", 1): 1 - 2 * (number % 2)})
    assert arranged.compact()
    assert arranged.files() == ()
    arranged.add({(1, "x", 1): 1})
    found = read_merged(lake, arranged.store, lake.scan(arranged.store.table, lake.snapshot()))
    assert found.to_pylist() == [{"uid": 1, "word": "x", "n": 1, WEIGHT: 1}]


def test_the_merge_as_sql_drops_what_stands_for_nothing(lake):
    store = Arranged(lake).store
    assert store.merge_sql("r").endswith("WHERE coalesce(`_weight`, 0) <> 0")
    assert "GROUP BY" in store.merge_sql("r")
    assert Store(table=store.table, keys=(), merge=None).merge_sql("r") == "SELECT * FROM r"
    assert Store(table=store.table, keys=(), merge=None).address is None


def test_other_columns_than_the_tables_are_left_to_spark(lake):
    fields = Arranged(lake).store.fields
    with pytest.raises(RefusedByEngine, match="other columns"):
        check_fields(pa.table({"uid": [1]}), fields)
