"""The real command in a process of its own, and a lake for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from platform_plugin.platform import Platform
from tests.warm import WarmProcess

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "platform_plugin.cli"]
IN_THE_BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$0" "$@"']
"""Before a command: it is started as a shell without job control starts what shall run in the background, ignoring Ctrl-C."""


@pytest.fixture
def url(tmp_path):
    return f"platform+local://{tmp_path}/lake"


@pytest.fixture
def environment(request, tmp_path, url):
    """The variables of the command's process; a runtime folder of its own unless the test asks for the shared server."""
    runtime = request.getfixturevalue("spark_server").path if request.node.get_closest_marker("spark") else tmp_path / "run"
    kept = {name: value for name, value in os.environ.items() if name not in ("PLATFORM_URL", "NO_COLOR", "COLUMNS")}
    return kept | {"PLATFORM_RUNTIME_DIR": str(runtime), "PLATFORM_URL": url, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture(scope="session")
def warm():
    """What a command is forked from."""
    process = WarmProcess()
    yield process
    process.stop()


@pytest.fixture
def platform(environment, warm):
    """Run the command; returns the finished process."""

    def run(*arguments, stdin="", check=None, cwd=ROOT, **changes):
        variables = {name: value for name, value in (environment | changes).items() if value is not None}
        done = warm.run(arguments, stdin=stdin, env=variables, cwd=cwd, seconds=200)
        assert "Traceback" not in done.stderr or "--debug" in arguments, done.stderr
        if check is not None:
            assert done.returncode == check, done.stderr
        return done

    return run


@pytest.fixture
def lake(url):
    """The URL of a lake with a table, a stream, a view, and rows that were inserted without Spark."""
    with Platform.create(url) as platform:
        # CREATE VIEW asks Spark whether the query makes sense, for which these tests would have to start one.
        with platform.lake.commit("create view rich") as commit:
            commit.create_view("rich", "SELECT id FROM users WHERE rate > 2")
        platform.execute(SCRIPT)
    return url


SCRIPT = """
CREATE TABLE users (id INT PRIMARY KEY, region STRING, rate DECIMAL(9,2));
CREATE STREAM posts (uid INT, content STRING);
INSERT INTO users VALUES (1, 'EU', 2.50), (2, '', 3.25), (3, NULL, NULL);
INSERT INTO users VALUES (4, 'a,"b"', 1);
"""
