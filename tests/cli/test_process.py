"""The process of a command: whoever starts it, with whatever signals and files."""

from __future__ import annotations

import subprocess

from platform_plugin.platform import Platform
from tests.cli.conftest import COMMAND, ROOT


def test_closed_standard_files_are_neither_needed_nor_taken_by_the_catalogue(environment, url):
    Platform.create(url).close()

    def run(closed, *arguments):
        command = ["sh", "-c", f'exec "$0" "$@" {closed}', *COMMAND, *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)

    assert run("<&- >&- 2>&-", "sql", "-c", "CREATE TABLE users (id INT)").returncode == 0
    unread = run("<&-", "sql")
    assert (unread.returncode, unread.stderr.splitlines()[0]) == (1, "error: there is no statement to run")
    with Platform.open(url) as platform:
        assert [row["name"] for row in platform.execute("SHOW TABLES").arrow().to_pylist()] == ["users"]
