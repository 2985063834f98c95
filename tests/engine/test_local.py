"""The kernel in this process: what it bids for, what it runs together, and what becomes of files when a run fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest

from platform_plugin.engine import kernel_run
from platform_plugin.engine.engine import Task, TaskInput, TaskPlan
from platform_plugin.engine.kernel_run import compute
from platform_plugin.engine.limits import Limits
from platform_plugin.engine.local import LocalEngine
from platform_plugin.engine.refusal import Refusal, RefusedByEngine
from platform_plugin.errors import StorageError
from platform_plugin.platform import Platform
from tests.engine.plans import FIELDS, SUM, SUMS, plan

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake


class TableTarget(NamedTuple):
    """A table that takes rows as they are."""

    table: Table

    def write(self, lake: Lake, rows: pa.Table) -> list[DataFile]:
        return [lake.write(self.table, rows)]


NUMBERS = pa.table({"k": pa.array([1, 1, 2], pa.int32()), "v": pa.array([10, 20, 30], pa.int64())})


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE sums (k INT, s BIGINT)")
        yield made


@pytest.fixture
def engine(platform):
    return LocalEngine(platform.lake, Limits())


def small(role="range", **sizes):
    return TaskInput(role=role, read=lambda columns: NUMBERS.select([name for name in NUMBERS.column_names if name in columns]), **sizes)


def run(engine, *tasks, **inputs):
    found = {f"main.{name}": one for name, one in (inputs or {"numbers": small()}).items()}
    return engine.run([engine.bid(task, found) for task in tasks], found)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (TaskInput(role="range", row_count=4_000_001), "many rows, or rows that were changed"),
        (TaskInput(role="range", size_bytes=129 << 20), "many rows, or rows that were changed"),
        (TaskInput(role="range", is_whole=False), "many rows, or rows that were changed"),
        (TaskInput(role="tail", row_count=250_001), "many rows, or rows that were changed"),
        (TaskInput(role="state", size_bytes=64 << 20), "a large state"),
        (TaskInput(role="table", size_bytes=17 << 20), "a large table that is looked up"),
        (TaskInput(role="table", file_count=65), "a large table that is looked up"),
        (TaskInput(role="range", row_count=4_000_000), None),
        (TaskInput(role="rows", row_count=1 << 40), None),
        (NUMBERS, None),
    ],
)
def test_it_bids_for_what_is_within_the_limits(engine, given, why):
    offer = engine.bid(Task.of(plan(SUM)), {"main.numbers": given})
    assert (offer.why, offer.for_good) == (why, False) if why else offer.engine == "local"


def test_a_limit_of_nothing_for_states_leaves_all_reads_to_spark(platform):
    engine = LocalEngine(platform.lake, Limits(client_state_bytes=0))
    assert isinstance(engine.bid(Task.of(plan(SUM)), {"main.numbers": TaskInput(role="tail")}), Refusal)
    assert not isinstance(engine.bid(Task.of(plan(SUM)), {"main.numbers": TaskInput(role="range")}), Refusal)


def test_a_task_that_is_refused_for_good_is_not_offered_again(engine):
    task = Task.of(plan("SELECT soundex(k) AS s FROM numbers"), key="sounds")
    (refusal,) = run(engine, task)
    assert (refusal.why, refusal.for_good) == ("the function soundex", True)
    assert engine.bid(Task.of(plan(SUM), key="sounds"), {"main.numbers": small()}) == refusal, "the key stands for the plans"


def test_a_refusal_for_its_rows_is_forgotten(engine):
    task = Task.of(plan("SELECT k / 0 AS q FROM numbers"), key="quotients")
    (refusal,) = run(engine, task)
    assert not refusal.for_good
    assert not isinstance(engine.bid(task, {"main.numbers": small()}), Refusal)


def test_tasks_with_a_target_become_files_and_others_rows(engine, platform):
    sums = platform.lake.table("sums")
    written, kept = run(engine, Task(plans=(TaskPlan(query=plan(SUM), fields=SUMS, target=TableTarget(sums)),)), Task.of(plan(SUM)))
    assert [[file.record_count for file in files] for files in written.files] == [[2]]
    assert written.rows == ()
    assert sorted(kept.rows[0].to_pylist(), key=str) == [{"k": 1, "s": 30}, {"k": 2, "s": 30}]
    nothing = run(engine, Task(plans=(TaskPlan(query=plan(f"{SUM} HAVING sum(v) > 99"), fields=SUMS, target=TableTarget(sums)),)))
    assert nothing[0].files == ((),), "no rows are no file"
    platform.lake.discard(written.files[0])


def test_all_plans_of_a_task_are_refused_together_and_leave_other_tasks_alone(engine, platform):
    sums = platform.lake.table("sums")
    good, bad = (
        TaskPlan(query=plan(SUM), fields=SUMS, target=TableTarget(sums)),
        TaskPlan(query=plan("SELECT soundex(k) AS s FROM numbers")),
    )
    refused, done = run(engine, Task(plans=(good, bad)), Task(plans=(good,)))
    assert isinstance(refused, Refusal)
    platform.lake.discard(done.files[0])
    assert not [name for name in files_of(platform) if name.endswith(".parquet")], "nothing was written for the first"


def files_of(platform):
    return [path for path, _ in platform.lake.storage.listing()]


def test_other_columns_than_are_wanted_are_refused(engine):
    (refusal,) = run(engine, Task.of(plan(SUM), FIELDS))
    assert refusal.why == "other columns than Spark gives"
    with pytest.raises(RefusedByEngine):
        compute(plan(SUM), {"main.numbers": NUMBERS}, FIELDS)


def unreadable(_):
    raise StorageError("a file is lost")


def test_a_table_that_cant_be_read_is_a_refusal_for_those_who_look_it_up(engine):
    joined = Task.of(plan("SELECT a.k, b.v FROM numbers a JOIN others b ON a.k = b.k"))
    inputs = {"numbers": small(), "others": TaskInput(role="table", read=unreadable)}
    refused, done = run(engine, joined, Task.of(plan(SUM)), **inputs)
    assert refused.why == "a table that can't be read"
    assert done.rows[0].num_rows == 2


def test_a_range_that_cant_be_read_is_an_error(engine):
    with pytest.raises(StorageError):
        run(engine, Task.of(plan(SUM)), numbers=TaskInput(role="range", read=unreadable))


def test_files_of_a_run_that_fails_are_removed(engine, platform, monkeypatch):
    sums = platform.lake.table("sums")
    writes = []

    def write(self, table, rows, **options):
        writes.append(rows)
        if len(writes) == 2:
            raise StorageError("the disk is full")
        return original(self, table, rows, **options)

    original = type(platform.lake).write
    monkeypatch.setattr(type(platform.lake), "write", write)
    task = Task(plans=(TaskPlan(query=plan(SUM), fields=SUMS, target=TableTarget(sums)),))
    with pytest.raises(StorageError):
        run(engine, task, replace(task, key="other"))
    assert not [name for name in files_of(platform) if name.endswith(".parquet")]


def test_only_columns_that_are_mentioned_are_read(engine):
    asked = []

    def read(columns):
        asked.append(set(columns))
        return NUMBERS

    run(engine, Task.of(plan("SELECT k + 1 AS n FROM numbers")), numbers=TaskInput(read=read))
    assert asked == [{"k"}]


def test_aggregations_that_are_known_by_keys_are_shared_again(engine, monkeypatch):

    made = []
    original = kernel_run.Groupings
    monkeypatch.setattr(kernel_run, "Groupings", lambda shared: made.append(len(shared)) or original(shared))
    tasks = [Task.of(plan(text), key=text) for text in (SUM, SUM.replace("sum", "max"), "SELECT count(*) AS n FROM numbers")]
    once, again = run(engine, *tasks), run(engine, *tasks)
    assert [result.rows[0].to_pylist() for result in once] == [result.rows[0].to_pylist() for result in again]
    assert len(made) <= 1
