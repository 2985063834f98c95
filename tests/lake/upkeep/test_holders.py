"""A lease goes with the process that held it, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from platform_plugin.lake.lake import Lake
from platform_plugin.lake.upkeep.holders import has_holder_ended, this_holder


def test_this_process_is_there_and_others_are_not_judged() -> None:
    mine = this_holder("test")
    assert not has_holder_ended(mine)
    assert not has_holder_ended("somebody's own words")
    assert not has_holder_ended(mine.replace("@", "@another-", 1)), "a process of another machine may well be alive"
    assert has_holder_ended(mine.rsplit("/", 1)[0] + "/1"), "another process has this number now"


def test_a_killed_reader_holds_nothing(lake_url: str) -> None:
    with Lake.create(lake_url) as lake:
        code = (
            "import sys, time; from platform_plugin.lake.lake import Lake\n"
            f"lease = Lake.open({lake_url!r}).lease()\nprint(lease.snapshot.id, flush=True)\ntime.sleep(60)"
        )
        reader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert reader.stdout is not None
        leased = int(reader.stdout.readline())
        for number in range(3):
            with lake.commit("move on") as commit:
                commit.create_schema(f"s{number}")
        later = datetime.now(UTC) + timedelta(seconds=1)
        assert lake.expire(later).leased == 1
        assert lake.snapshot(leased).id == leased
        os.kill(reader.pid, signal.SIGKILL)
        reader.wait()
        assert lake.expire(later).leased == 0
        assert leased not in [record.id for record in lake.commits()]
