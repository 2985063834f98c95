import os
import signal
import socket
import threading
import time

import pytest

from platform_plugin.cli.reach import check_reach
from platform_plugin.errors import CatalogueError


@pytest.fixture
def silent():
    """The address of a port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_status_says_within_seconds_that_postgres_does_not_answer(platform, silent, tmp_path):
    url = f"platform://me:secret@{silent}/db?data={tmp_path}/data"
    began = time.monotonic()
    with pytest.raises(CatalogueError):
        check_reach(url)
    assert time.monotonic() - began < 20
    done = platform("status", "--url", url, check=1)
    assert silent in done.stderr
    assert "no answer within 2.5 seconds" in done.stderr
    assert "hint" in done.stderr
    assert "secret" not in done.stderr


def test_a_closed_port_is_told_at_once(platform, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for command in ("status", "tables"):
        done = platform(command, "--url", f"platform://me@127.0.0.1:{port}/db?data={tmp_path}/data", check=1)
        assert f'PostgreSQL at "127.0.0.1:{port}" can\'t be reached' in done.stderr


def test_something_else_at_the_port_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CatalogueError, match="not PostgreSQL"):
            check_reach(f"platform://me@127.0.0.1:{port}/db?data={tmp_path}/data")
        thread.join()


@pytest.mark.postgres
def test_a_running_server_is_reached_and_a_stopped_process_is_not(private_postgres, platform, tmp_path):
    url = private_postgres.database("postgres").lake_url(tmp_path / "data")
    platform("init", url, check=0)
    platform("status", "--url", url, check=0)
    postmaster = int((private_postgres.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(postmaster, signal.SIGSTOP)
    try:
        done = platform("status", "--url", url, check=1)
    finally:
        os.kill(postmaster, signal.SIGCONT)
    assert "no answer within 2.5 seconds" in done.stderr
