"""Hot copies: right or absent, within their budget, and safe with several processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.workspace import Workspace
from platform_plugin.state import hot
from platform_plugin.state import touch as touching
from platform_plugin.state.cache_folder import CACHE_VARIABLE
from platform_plugin.state.hot import HotCopies
from platform_plugin.state.touch import touch
from tests.state.stores import Arranged, counted

LAKE, OTHER = UUID(int=1), UUID(int=2)
ROWS = pa.table({"_address": pa.array(range(1000), pa.int64()), "word": [f"w{number}" for number in range(1000)]})


@pytest.fixture(autouse=True)
def no_mappings():
    """Each test maps anew, as another process would."""
    hot._MAPPED.clear()


def copies(folder, lake=LAKE, budget=1 << 30):
    return HotCopies(lake, budget=budget, folder=folder)


def forget():
    hot._MAPPED.clear()


def test_a_copy_is_mapped_and_not_read(tmp_path):
    assert copies(tmp_path).find("a", "x") is None
    before = pa.total_allocated_bytes()
    found = copies(tmp_path).put("a", "x", ROWS)
    assert found.equals(ROWS)
    forget()
    assert copies(tmp_path).find("a", "x").equals(ROWS)
    assert pa.total_allocated_bytes() - before < ROWS.nbytes / 2
    assert copies(tmp_path).find("a", "x").column(0).chunk(0).to_numpy().flags.owndata is False
    assert (tmp_path / str(LAKE)).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(bytes(len(path.read_bytes()))),
        lambda path: path.write_bytes(path.read_bytes()[:300] + b"?" + path.read_bytes()[301:]),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes() + b"more"),
    ],
)
def test_a_harmed_copy_is_made_anew(tmp_path, harm):
    copies(tmp_path).put("a", "x", ROWS)
    forget()
    harm(tmp_path / str(LAKE) / "a.arrow")
    assert copies(tmp_path).find("a", "x") is None
    assert copies(tmp_path).put("a", "x", ROWS).equals(ROWS)
    forget()
    assert copies(tmp_path).find("a", "x").equals(ROWS)


def test_every_byte_of_a_copy_is_checked(tmp_path):
    big = pa.table({"n": np.arange(400_000)})
    copies(tmp_path).put("a", "x", big)
    path = tmp_path / str(LAKE) / "a.arrow"
    whole = path.read_bytes()
    for place in (0, 8 * 131_072 + 5, 2_000_003, len(whole) - 90, len(whole) - 57, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        forget()
        assert copies(tmp_path).find("a", "x") is None, place
    # Two blocks that changed places have the same sums.
    block = 8 * 131_072
    path.write_bytes(whole[block : 2 * block] + whole[:block] + whole[2 * block :])
    assert copies(tmp_path).find("a", "x") is None


def test_a_copy_of_another_lake_or_of_another_store_is_none(tmp_path):
    copies(tmp_path).put("a", "x", ROWS)
    (tmp_path / str(OTHER)).mkdir()
    (tmp_path / str(OTHER) / "a.arrow").write_bytes((tmp_path / str(LAKE) / "a.arrow").read_bytes())
    assert copies(tmp_path, OTHER).find("a", "x") is None
    assert copies(tmp_path).find("a", "other columns") is None
    assert copies(tmp_path).find("a", "x").equals(ROWS)


def test_those_not_used_for_longest_leave(tmp_path):
    size = copies(tmp_path).put("0", "x", ROWS) and (tmp_path / str(LAKE) / "0.arrow").stat().st_size
    for number in range(1, 6):
        own = copies(tmp_path, LAKE if number % 2 else OTHER, budget=4 * size + size // 2)
        own.put(str(number), "x", ROWS)
        for path in tmp_path.glob("*/*.arrow"):
            os.utime(path, (time.time() - 1000 * (6 - int(path.stem)),) * 2)
        if number == 3:
            forget()
            assert copies(tmp_path).find("0", "x").equals(ROWS), "a use is noted"
    # Each put marks the copies older than the one it makes, but 0 was used.
    left = {path.stem for path in tmp_path.glob("*/*.arrow")}
    assert len(left) == 4
    assert "5" in left
    figures = copies(tmp_path).figures()
    assert (figures.entries, figures.bytes) == (4, 4 * size)


def test_one_copy_may_not_drive_out_all_others_and_none_is_made_without_a_budget(tmp_path):
    assert copies(tmp_path, budget=ROWS.nbytes).put("a", "x", ROWS) is ROWS
    off = copies(tmp_path, budget=0)
    assert not off.is_on
    assert off.put("a", "x", ROWS) is ROWS
    assert off.find("a", "x") is None
    assert list(tmp_path.rglob("*.arrow")) == []


def test_a_folder_that_can_not_be_written_changes_no_answer(tmp_path):
    (tmp_path / "file").write_text("")
    own = copies(tmp_path / "file")
    assert own.put("a", "x", ROWS) is ROWS
    assert own.find("a", "x") is None
    assert own.figures().entries == 0


def test_what_killed_processes_have_begun_is_removed(tmp_path):
    copies(tmp_path).put("a", "x", ROWS)
    old, new = (tmp_path / str(LAKE) / f"b.arrow.{number}.part" for number in (1, 2))
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (time.time() - 10_000,) * 2)
    copies(tmp_path).put("c", "x", ROWS)
    assert not old.exists()
    assert new.exists(), "somebody may be at it"


def _churn(folder, seed, budget):
    random = np.random.default_rng(seed)
    for _ in range(150):
        name = int(random.integers(0, 8))
        rows = pa.table({"n": np.full(2_000 + 10 * name, name)})
        found = copies(folder, budget=budget).find(str(name), "x")
        if found is None:
            found = copies(folder, budget=budget).put(str(name), "x", rows)
        if not found.equals(rows):
            os._exit(3)
        if random.random() < 0.3:
            forget()
    os._exit(0)


def test_several_processes_write_read_and_remove_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    budget = 90_000
    workers = [context.Process(target=_churn, args=(tmp_path, seed, budget)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    copies(tmp_path, budget=budget).put("last", "x", pa.table({"n": np.arange(10)}))
    assert copies(tmp_path).figures().bytes <= budget


def test_a_process_killed_while_it_writes_copies_leaves_none_that_is_wrong(tmp_path):
    program = (
        "import sys, numpy as np, pyarrow as pa; from pathlib import Path; from uuid import UUID\n"
        "from platform_plugin.state.hot import HotCopies\n"
        "own = HotCopies(UUID(int=1), budget=1 << 30, folder=Path(sys.argv[1])); print('go', flush=True)\n"
        "for number in range(10_000): own.put(str(number % 5), 'x', pa.table({'n': np.full(200_000, number % 5)}))\n"
    )
    for pause in (0.0, 0.01, 0.03, 0.1):
        child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"go\n"
        time.sleep(pause)
        child.send_signal(signal.SIGKILL)
        child.wait()
        forget()
        for number in range(5):
            found = copies(tmp_path).find(str(number), "x")
            assert found is None or found.equals(pa.table({"n": np.full(200_000, number)}))


def test_copies_of_a_store_are_used_and_made_again(lake, cache_folder, monkeypatch):
    monkeypatch.setattr(touching, "_SMALL_BYTES", 0)
    arranged, work = Arranged(lake), Workspace(lake, limits=Limits(hot_bytes=1 << 30))
    arranged.add({(number, "x", 1): 1 for number in range(100)})
    keys, wanted = pa.table({"uid": [5, 7]}), Counter({(5, "x", 1): 1, (7, "x", 1): 1})
    assert counted(touch(work, arranged.store, keys, lake.snapshot())) == wanted
    (path,) = cache_folder.rglob("*.arrow")
    assert path.parent.name == str(lake.uuid)
    assert path.stem in arranged.files()[0].path
    monkeypatch.setattr(touching, "read_file", None)
    for _ in range(2):
        forget()
        assert counted(touch(work, arranged.store, keys, lake.snapshot())) == wanted, "the file itself is not read"
    monkeypatch.undo()
    monkeypatch.setattr(touching, "_SMALL_BYTES", 0)
    monkeypatch.setenv(CACHE_VARIABLE, str(cache_folder))
    path.write_bytes(path.read_bytes()[:-7])
    forget()
    assert counted(touch(work, arranged.store, keys, lake.snapshot())) == wanted
