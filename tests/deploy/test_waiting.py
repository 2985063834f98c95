"""Whoever waits is told what for, at a terminal in place, elsewhere by a line at least each half minute."""

from __future__ import annotations

import itertools
import time

from deploy.waiting import Ticker


class Clock:
    """Time that passes by being waited for, an hour in all."""

    def __init__(self):
        self.now = 0.0

    def wait(self, seconds):
        self.now += seconds
        return self.now > 3600


def test_a_file_gets_a_line_at_least_each_half_minute(capsys, monkeypatch):
    ticker, clock = Ticker("starting Spark"), Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(ticker, "_over", clock)
    monkeypatch.setattr(ticker, "_began", 0.0, raising=False)
    ticker._tell()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [f"    starting Spark … {seconds} s" for seconds in (1, 3, 7, 15, 31)]
    moments = [0, *(int(line.split()[-2]) for line in lines)]
    assert max(later - earlier for earlier, later in itertools.pairwise(moments)) <= 30
    assert moments[-1] > 3500


def test_what_is_quick_is_not_told(capsys):
    with Ticker("counting"):
        pass
    assert capsys.readouterr().out == ""
