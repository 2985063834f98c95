"""`platform maintain` as a command: it maintains what is behind, says what it did, and says who was left behind."""

from __future__ import annotations

import json

import pytest

from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark


def test_nothing_to_do_and_a_typo(platform, url, lake):
    assert platform("maintain", "--once", check=0).stdout == "nothing to do for any continuous view or sample\n"
    assert platform("maintain", "--once", "--json", check=0).stdout == ""
    assert "maintain" in platform("--help").stdout
    assert "does not exist" in platform("maintain", "--once", "nowhere", check=1).stderr


def test_samples_without_any_view(platform, url):
    with Platform.create(url) as made:
        made.execute("CREATE STREAM s (id INT)")
        made.execute("CREATE TABLE t (id INT)")
        made.execute("CREATE SAMPLE some ON s SIZE 5")
        made.execute("CREATE SAMPLE few ON t SIZE 5")
        made.execute("INSERT INTO t VALUES (1)")
        made.execute("INSERT INTO s SELECT id FROM t")
    assert "1 sample consumed what arrived" in platform("maintain", "--once", "some", check=0).stdout
    assert platform("maintain", "--once", "some", check=0).stdout == "nothing to do for main.some\n"
    assert 'sample "main.few" is not of a stream' in platform("maintain", "few", check=1).stderr
    assert '"main.t" is neither a continuous view nor a sample' in platform("maintain", "t", check=1).stderr


@pytest.mark.usefixtures("lake")
def test_a_dry_run_says_what_would_be_done(platform):
    assert platform("maintain", "--dry-run", check=0).stdout == "nothing is due\n"
    for statement in ("CREATE STREAM clicks (uid INT)", "CREATE VIEW clicked AS SELECT count(*) AS n FROM clicks"):
        platform("sql", "-c", statement, check=0)
    platform("sql", "-c", "INSERT INTO clicks VALUES (1), (2)", check=0)
    lines = platform("maintain", "--dry-run", check=0).stdout.splitlines()
    assert lines[:2] == ["view main.clicked consumes 2 rows", "  from main.clicks: rows 0 to 1"]
    (due,) = json.loads(platform("maintain", "--dry-run", "--json", "clicked", check=0).stdout)["due"]
    assert (due["name"], due["rows"], due["engine"]) == ("main.clicked", 2, "local")
    assert "does not exist" in platform("maintain", "--dry-run", "nowhere", check=1).stderr


def test_what_is_behind_is_maintained(platform, url):
    with Platform.create(url) as made:
        made.execute("CREATE STREAM s (id INT)")
        made.execute("CREATE VIEW total WITH (target_lag = '5 seconds') AS SELECT count(*) AS n FROM s")
        made.execute("CREATE VIEW shares AS SELECT sum(10 DIV id) AS n FROM s")
        made.execute("INSERT INTO s VALUES (1), (2)")
    done = platform("maintain", "--once")
    assert "2 rows into 2 groups of 2 views, by local and spark_sql, 2 jobs, " in done.stdout
    with Platform.open(url) as opened:
        found = opened.execute("SELECT n FROM total")
        assert (list(found), found.metrics) == ([(2,)], None), "its result is at hand"
        opened.execute("INSERT INTO s VALUES (0)")
    failed = platform("maintain", "--once", "--json", check=1)
    told = json.loads(failed.stdout.splitlines()[0])
    assert told["views"] == ["main.total"]
    assert "division by zero" in json.dumps(told["failed"]["main.shares"])
