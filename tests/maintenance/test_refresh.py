"""EXPLAIN REFRESH says what a REFRESH would do now, and wrong names are told in the words of the statement."""

from __future__ import annotations

import pytest

from platform_plugin.errors import InvalidValue, UnknownObject
from platform_plugin.platform import Platform


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT)")
        made.execute("CREATE TABLE users (id INT)")
        made.execute("CREATE VIEW sums AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid")
        made.execute("CREATE VIEW twin AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid")
        made.execute("CREATE SAMPLE few ON posts SIZE 2")
        made.execute("CREATE SAMPLE some ON users SIZE 2")
        yield made


def explained(platform, statement):
    return [row[0] for row in platform.execute(f"EXPLAIN {statement}")]


def test_of_a_view(platform):
    assert explained(platform, "REFRESH VIEW sums")[0] == "result main.sums is stored again"
    platform.execute("INSERT INTO posts VALUES (1, 1), (2, 2)")
    lines = explained(platform, "REFRESH VIEW sums")
    assert lines[:2] == ["view main.sums consumes 2 rows", "  from main.posts: rows 0 to 1"]
    assert lines[2].startswith("  into main.sums__state_1_")
    assert lines[3] == "  with main.twin, which share it"
    assert lines[4].startswith("  engine local, about 1 ms: executors would take ")
    assert lines == explained(platform, "REFRESH VIEW sums"), "nothing was done"


def test_of_samples(platform):
    assert explained(platform, "REFRESH SAMPLE few") == ["nothing waits for main.few"]
    platform.execute("INSERT INTO posts VALUES (1, 1)")
    assert explained(platform, "REFRESH SAMPLE few")[0] == "sample main.few consumes 1 row"
    assert explained(platform, "REFRESH SAMPLE some")[0].startswith("sample main.some is drawn again")


def test_wrong_names(platform):
    with pytest.raises(InvalidValue, match=r'"main\.users" is not a continuous view'):
        platform.execute("EXPLAIN REFRESH VIEW users")
    with pytest.raises(InvalidValue, match=r'"main\.users" is not a sample'):
        platform.execute("REFRESH SAMPLE users")
    with pytest.raises(UnknownObject):
        platform.execute("REFRESH SAMPLE fw")
