"""`SampleProgram` as a task runs it: the reservoirs of any shares are those of all rows, whichever attempt of a task counts."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.refusal import Refusal
from platform_plugin.errors import InvalidValue, StorageError
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.files import files
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.keys.keys import EVERY, keys_of_ids
from platform_plugin.relations.samples.reservoir.condition import RowCondition
from platform_plugin.relations.samples.reservoir.local import RelationPart
from platform_plugin.relations.samples.tasks import executor_draw
from platform_plugin.relations.samples.tasks.reservoir_files import ReservoirShare

SEED = 7


class Slots:
    """A session of which only the number of tasks is asked."""

    closed = lost = False
    limits = None

    def __init__(self, count):
        self.count = count

    def read_task_slots(self):
        return self.count

    def close(self):
        pass


@pytest.fixture(autouse=True)
def _threads():
    """Tasks leave the other cores to their like, in the process that runs them."""
    before = pa.cpu_count()
    yield
    pa.set_cpu_count(before)


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 16)
    with Platform.create(tmp_path / "lake") as made:
        made.work.limits = Limits(task_least_rows=1, task_part_rows=50)
        yield made


def store(platform, counts):
    """A table with a file of each of these row counts, in place of the one before, and its columns."""
    lake, total = platform.lake, sum(counts)
    random = np.random.default_rng(total)
    rows = pa.table({"score": random.integers(0, 100, total), "kind": random.choice(["a", "b", "c"], total)})
    if "t" in {table.name.relation for table in lake.tables(lake.snapshot())}:
        platform.execute("DROP TABLE t")
    with lake.commit("rows") as commit:
        table = commit.create_table("t", lake.columns_of(rows))
        declare_relation(commit, table, Declaration(kind="table"))
        ends = np.cumsum(counts).tolist()
        commit.append(table, [lake.write(table, rows.slice(end - count, count)) for end, count in zip(ends, counts, strict=True)])
    return rows


def plan(platform, definition, slots, **more):
    """The program of a draw, and its shares."""
    lake, platform.work._session = platform.lake, Slots(slots)
    pieces = read_pieces(lake, lake.scan(lake.table("t"), lake.snapshot()))
    part = RelationPart(pieces=pieces, size=definition.cap(1), seed=SEED, **more)
    condition = None if definition.where is None else RowCondition(pieces.scan.table, definition.where)
    shares = executor_draw._divide(platform.work, part, condition)
    program = executor_draw._plan(platform.work, definition, part, condition, max(1, len(shares)))
    return pickle.loads(pickle.dumps(program)), shares


def expected(rows, definition, size, bound=EVERY):
    """Of each stratum the number of rows that pass, and the lowest keys among them."""
    keys = keys_of_ids(SEED, np.arange(rows.num_rows))
    scores, kinds = rows.column("score").to_numpy(), np.array(rows.column("kind").to_pylist())
    passing = scores < 40 if definition.where else np.ones(len(scores), dtype=bool)
    groups = {(kind,): passing & (kinds == kind) for kind in set(kinds.tolist())} if definition.strata else {(): passing}
    groups = {key: inside for key, inside in groups.items() if inside.any()}
    most = min(size, definition.cap(max(1, len(groups))))
    found = {}
    for key, inside in groups.items():
        pairs = zip(keys[inside].tolist(), np.flatnonzero(inside).tolist(), strict=True)
        found[key] = int(inside.sum()), sorted(pair for pair in pairs if pair[0] <= bound)[:most]
    return found


def drawn(sample):
    return {key: (held.cardinality, sorted(zip(held.keys.tolist(), held.places.tolist(), strict=True))) for key, held in sample.items()}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=st.fixed_dictionaries({"where": st.sampled_from([None, "score < 40"]), "strata": st.sampled_from([(), ("kind",)])}),
    counts=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    slots=st.integers(1, 9),
    size=st.integers(1, 60),
    bound=st.sampled_from([EVERY, EVERY // 2, EVERY // 20]),
)
def test_any_shares_give_the_lowest_keys_of_all_rows(platform, case, **sizes):
    rows, size = store(platform, sizes["counts"]), sizes["size"]
    definition = SampleDefinition(relation="", source="table", size=size, seed=1, **case)
    bound = EVERY if definition.strata else sizes["bound"]
    program, shares = plan(platform, definition, sizes["slots"], bounds={} if definition.strata else {(): bound})
    # Two attempts of a task have files of their own; either may be the one that counts.
    attempts = [[program.run(share), program.run(share)] for share in shares]
    for attempt in (0, 1):
        sample = program.merge([pickle.loads(pickle.dumps(each[attempt])) for each in attempts])
        assert drawn(sample.drawn) == expected(rows, definition, size, bound)
        assert definition.where or sum(figures.rows for figures in sample.figures) == rows.num_rows


def test_the_merge_reads_about_as_many_rows_of_reservoirs_as_belong_to_the_sample(platform):
    store(platform, [2000] * 8)
    definition = SampleDefinition(relation="", source="table", size=1000, seed=1)
    program, shares = plan(platform, definition, 8)
    partials = [program.run(share) for share in shares]
    assert all(partial.drawn.path is not None and not len(partial.drawn.entries) for partial in partials)
    assert sum(stratum.count for partial in partials for stratum in partial.drawn.strata.values()) == 8 * 1000
    sample = program.merge(partials)
    assert len(sample.drawn[()].keys) == 1000
    assert sample.rows_merged < 1000 + 8 * 60


def test_all_rows_that_pass_may_be_in_one_share(platform):
    store(platform, [300, 300, 300])
    definition = SampleDefinition(relation="", source="table", size=100, seed=1)
    program, shares = plan(platform, definition, 3)
    first = program.run(shares[0])
    empty = [program.run(share[:0]) for share in shares[1:]]
    found = program.merge([first, *empty]).drawn
    assert (found[()].cardinality, len(found[()].keys)) == (300, 100)
    assert all(isinstance(share.drawn, ReservoirShare) and not share.drawn.strata for share in empty)


def test_what_a_task_can_not_judge_or_read_comes_back_as_a_value(platform):
    store(platform, [50, 50])
    definition = SampleDefinition(relation="", source="table", size=10, seed=1, where="100 / score > 2")
    program, shares = plan(platform, definition, 2)
    refused = program.merge([program.run(share) for share in shares]).drawn
    assert isinstance(refused, Refusal)
    weighted = SampleDefinition(relation="", source="table", size=10, seed=1, weight="gone")
    program, shares = plan(platform, weighted, 2)
    assert isinstance(program.merge([program.run(share) for share in shares]).drawn, InvalidValue)
    program, shares = plan(platform, SampleDefinition(relation="", source="table", size=10, seed=1, where="score < 40"), 2)
    platform.lake.storage.delete([shares[0][0].part.file.path])
    assert isinstance(program.merge([program.run(share) for share in shares]).drawn, StorageError)
