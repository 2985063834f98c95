import os
import stat
from pathlib import Path

import pytest

from platform_plugin.engine.spark.server.runtime import hold_lock, locate_runtime, open_runtime
from platform_plugin.errors import ServerError


def test_folder_is_made_for_the_owner_only(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "a" / "b")
    assert stat.S_IMODE(runtime.path.stat().st_mode) == 0o700
    assert open_runtime(tmp_path / "a" / "b") == runtime


def test_folder_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(ServerError, match="open to other users"):
        open_runtime(tmp_path / "open")


def test_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ServerError, match="is a link"):
        open_runtime(tmp_path / "link")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 12345, 12345)
    with pytest.raises(ServerError, match="belongs to somebody else"):
        open_runtime(tmp_path / "theirs")


def test_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="too long"):
        open_runtime(tmp_path / ("x" * 100))


def test_unwritable_place_is_a_server_error_with_a_hint() -> None:
    with pytest.raises(ServerError, match="can't be made") as caught:
        open_runtime(Path("/proc/nowhere/platform"))
    assert "PLATFORM_RUNTIME_DIR" in str(caught.value.hint)


def test_location_prefers_the_session_folder(tmp_path: Path) -> None:
    assert locate_runtime({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "platform"
    assert locate_runtime({"XDG_RUNTIME_DIR": str(tmp_path), "PLATFORM_RUNTIME_DIR": "/x"}) == Path("/x")


def test_written_files_are_whole_and_private(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    runtime.write(runtime.token, "secret")
    assert runtime.token.read_text() == "secret"
    assert stat.S_IMODE(runtime.token.stat().st_mode) == 0o600
    assert [path.name for path in runtime.path.iterdir() if path.is_file()] == ["token"]


def test_damaged_state_counts_as_none(tmp_path: Path) -> None:
    runtime = open_runtime(tmp_path / "run")
    runtime.state.write_text('{"phase": "rea')
    assert runtime.read_state() == {}
    runtime.state.write_text("[1]")
    assert runtime.read_state() == {}


def test_lock_is_held_once_and_freed(tmp_path: Path) -> None:
    with hold_lock(tmp_path / "lock") as first, hold_lock(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with hold_lock(tmp_path / "lock") as again:
        assert again
