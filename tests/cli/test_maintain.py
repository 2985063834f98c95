"""`platform maintain` as a command: it maintains what is behind, says what it did, and says who was left behind."""

from __future__ import annotations

import json

import pytest

from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark


def test_nothing_to_do_and_a_typo(platform, url, lake):
    assert platform("maintain", "--once").stdout == ""
    assert "maintain" in platform("--help").stdout


def test_what_is_behind_is_maintained(platform, url):
    with Platform.create(url) as made:
        made.execute("CREATE STREAM s (id INT)")
        made.execute("CREATE VIEW total WITH (target_lag = '5 seconds') AS SELECT count(*) AS n FROM s")
        made.execute("CREATE VIEW shares AS SELECT sum(10 DIV id) AS n FROM s")
        made.execute("INSERT INTO s VALUES (1), (2)")
    done = platform("maintain", "--once")
    assert "2 rows into 2 groups of 2 views, 1 job, " in done.stdout
    with Platform.open(url) as opened:
        found = opened.execute("SELECT n FROM total")
        assert (list(found), found.metrics) == ([(2,)], None), "its result is at hand"
        opened.execute("INSERT INTO s VALUES (0)")
    failed = platform("maintain", "--once", "--json", check=1)
    told = json.loads(failed.stdout.splitlines()[0])
    assert told["views"] == ["main.total"]
    assert "division by zero" in json.dumps(told["failed"]["main.shares"])
