"""Merges by tasks on executors: the files that this process would write, and at every snapshot the rows that were there before."""

import random

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import StorageError
from platform_plugin.platform import Platform
from platform_plugin.relations.tables.merge import choose_rewriter, merge_files
from tests.lake.agreement import assert_agree, kept, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_server")]


def fill(platform, seed=1):
    """A table of many small files, some rows of which have been changed and deleted since."""
    chance = random.Random(seed)
    platform.execute("CREATE TABLE t (i BIGINT, s STRING) ")
    lake, table = platform.lake, platform.lake.table("t")
    for _ in range(3):
        with lake.commit("rows") as commit:
            numbers = [[chance.randrange(50) for _ in range(40)] for _ in range(4)]
            rows = [pa.table({"i": pa.array(each, pa.int64()), "s": [str(chance.random()) for _ in each]}) for each in numbers]
            commit.append(table, [lake.write(table, each) for each in rows])
        platform.execute(f"DELETE FROM t WHERE i = {chance.randrange(50)}")
        platform.execute(f"UPDATE t SET s = 'changed' WHERE i = {chance.randrange(50)}")
    return table


def target_of(platform, table, groups):
    """A size of files that makes so many groups or more."""
    return sum(file.size_bytes for file in platform.lake.scan(table, platform.lake.snapshot()).files) // groups


def rows_at(platform):
    lake = platform.lake
    there = [at for at in kept(lake) if any(str(table.name) == "main.t" for table in lake.tables(at))]
    return {at.id: sorted(rows_of(lake.read("t", snapshot=at)), key=str) for at in there}


def test_tasks_rewrite_what_the_process_does(tmp_path, duck):
    outcomes = {}
    for engine in ("local", "executors"):
        with Platform.create(f"platform+local://{tmp_path}/{engine}", engine=engine) as platform:
            table = fill(platform)
            before = rows_at(platform)
            merged, run = merge_files(platform.work, "t", target_bytes=target_of(platform, table, 3))
            assert (run.engine, run.jobs, run.rows > 0) == (engine, int(engine == "executors"), True)
            assert run.tasks == (0 if engine == "local" else merged.files_after)
            assert merged.files_after >= 2
            after = rows_at(platform)
            assert {at: after[at] for at in before} == before
            assert_agree(platform.lake, duck(str(platform.lake.location)), snapshots=kept(platform.lake)[2:])
            outcomes[engine] = merged
            assert merge_files(platform.work, "t", target_bytes=1).outcome.files_before == 0, "each file is full enough"
    assert outcomes["local"] == outcomes["executors"]


def test_an_error_in_one_task_leaves_everything_as_it_was(tmp_path):
    with Platform.create(f"platform+local://{tmp_path}/lake", engine="executors") as platform:
        table = fill(platform)
        scan = platform.lake.scan(table, platform.lake.snapshot())
        kept_aside = (tmp_path / "lake").rglob(scan.files[-1].path.rpartition("/")[2])
        lost = next(kept_aside)
        content = lost.read_bytes()
        lost.unlink()
        before = sorted(path for path, _ in platform.lake.storage.listing(""))
        with pytest.raises(StorageError, match="is missing"):
            merge_files(platform.work, "t", target_bytes=target_of(platform, table, 3))
        assert sorted(path for path, _ in platform.lake.storage.listing("")) == before
        lost.write_bytes(content)
        assert merge_files(platform.work, "t").outcome.files_after == 1


def test_who_rewrites(tmp_path, monkeypatch):
    with Platform.create(f"platform+local://{tmp_path}/lake") as platform:
        table = fill(platform)
        seen = []
        platform.lake.merge("t", rewriter=lambda rewrites: seen.extend(rewrites) or [each.run(platform.lake) for each in rewrites])
        (rewrite,) = seen
        assert (rewrite.size_bytes > 0, rewrite.table) == (True, table)
        assert choose_rewriter(platform.work, seen).why.startswith("executors would take ")
        many = [rewrite] * 4
        monkeypatch.setattr(type(rewrite), "size_bytes", property(lambda _: 1 << 30))
        platform.work.limits = Limits(task_state_bytes=1 << 31)
        assert choose_rewriter(platform.work, many).engine == "executors"
        platform.work.limits = Limits(task_state_bytes=1 << 20)
        assert "too large for the memory of a task" in choose_rewriter(platform.work, many).why
        platform.work.engine = "spark_sql"
        assert choose_rewriter(platform.work, many).engine == "local"
