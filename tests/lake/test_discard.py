"""Files of a commit that failed are removed, and never those of one that was made or may have been."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.errors import CommitConflict, OutcomeUnknown
from platform_plugin.lake.commit.commit import Commit

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def table(lake):
    with lake.commit("create") as commit:
        commit.create_table("t", lake.columns_of(ROWS))
    return lake.table("t")


def append(lake, table):
    """As writers do it: what was written is discarded whatever goes wrong."""
    file = lake.write(table, ROWS)
    try:
        with lake.commit("append") as commit:
            commit.append(table, [file])
    except BaseException:
        lake.discard([file])
        raise
    return file


def test_files_of_a_refused_commit_go(lake, table, monkeypatch):
    def refuse(self, *_):
        raise CommitConflict("refused", hint="none")

    monkeypatch.setattr(Commit, "_attempt", refuse)
    with pytest.raises(CommitConflict):
        append(lake, table)
    assert [path for path, _ in lake.storage.listing() if path.endswith(".parquet")] == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_after_the_commit_loses_nothing(lake, table, monkeypatch, interrupt):
    run = Commit._run

    def interrupted(self):
        run(self)
        raise interrupt

    monkeypatch.setattr(Commit, "_run", interrupted)
    with pytest.raises(interrupt):
        append(lake, table)
    assert lake.read("t").num_rows == 2


def test_an_interrupt_behind_the_commit_loses_nothing(lake, table):
    file = append(lake, table)
    lake.discard([file])
    assert lake.read("t").num_rows == 2, "the catalogue names it"


def test_nothing_is_removed_once_an_outcome_is_unknown(lake, table, monkeypatch):
    run = Commit._run

    def unknown(self):
        run(self)
        self._lake.spare_files()
        raise OutcomeUnknown("gone", hint="look")

    monkeypatch.setattr(Commit, "_run", unknown)
    with pytest.raises(OutcomeUnknown):
        append(lake, table)
    monkeypatch.undo()
    orphan = lake.write(table, ROWS)
    lake.discard([orphan])
    assert lake.storage.exists(orphan.path)
    assert lake.read("t").num_rows == 2
