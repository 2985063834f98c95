"""The line about work that takes long: drawn on a terminal, written now and then elsewhere."""

from __future__ import annotations

import io

from platform_plugin.cli.output.progress import ProgressLine


def test_where_no_line_is_drawn_a_long_start_is_told_each_half_minute():
    stream = io.StringIO()
    with ProgressLine("opening the lake", stream) as line:
        for seconds in (0.1, 29.0, 30.5, 31.0, 59.0, 61.0):
            line.watch("starting Spark", seconds)
    assert stream.getvalue().splitlines() == [
        "waiting for the platform server: starting Spark, for 30 s so far",
        "waiting for the platform server: starting Spark, for 1 min 1 s so far",
    ]
