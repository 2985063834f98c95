import os
import subprocess
import sys
from pathlib import Path

import pytest
import run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path):
    """The files that decide what an environment holds."""
    (tmp_path / "deploy").mkdir()
    for name in ("pyproject.toml", "requirements.lock", "deploy/java.lock"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_the_settings_of_tools_do_not_make_an_environment_stale(checkout):
    before = run.digest_inputs(checkout, python="3.11")
    settings = (checkout / "pyproject.toml").read_text()
    (checkout / "pyproject.toml").write_text(settings.replace("line-length = 140", "line-length = 100"))
    assert run.digest_inputs(checkout, python="3.11") == before


@pytest.mark.parametrize("name", ["requirements.lock", "deploy/java.lock"])
def test_a_changed_lock_makes_an_environment_stale(checkout, name):
    before = run.digest_inputs(checkout, python="3.11")
    with (checkout / name).open("a") as file:
        file.write("\n")
    assert run.digest_inputs(checkout, python="3.11") != before


def test_a_new_dependency_or_another_python_makes_an_environment_stale(checkout):
    before = run.digest_inputs(checkout, python="3.11")
    assert run.digest_inputs(checkout, python="3.12") != before
    settings = (checkout / "pyproject.toml").read_text()
    (checkout / "pyproject.toml").write_text(settings.replace('"pyarrow>=20"', '"pyarrow>=21"'))
    assert run.digest_inputs(checkout, python="3.11") != before


def test_an_active_environment_is_not_made_anew_by_its_own_python(tmp_path):
    # `make` with .venv active removed the interpreter that it ran on, and ended in a traceback.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'deploy')!r}); import run; print(run.PYTHON)"
    outside, inside = (
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        for python in (run.PYTHON, str(tmp_path / "venv" / "bin" / "python"))
    )
    assert not Path(inside).is_relative_to(tmp_path)
    assert inside == outside


def test_uv_looks_where_pip_would():
    listed = (
        ":env:.index-url='https://me:secret@mirror.example/simple'\n"
        "global.cert='/etc/ca.crt'\n"
        "global.extra-index-url='file:///a file:///b'\n"
        "global.find-links='/wheels /more'\n"
        "global.index-url='https://old.example/simple'\n"
        "global.quiet='1'\n"
    )
    assert run.plan_uv_settings(listed, {}) == {
        "UV_DEFAULT_INDEX": "https://me:secret@mirror.example/simple",
        "SSL_CERT_FILE": "/etc/ca.crt",
        "UV_INDEX": "file:///a file:///b",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,/more",
    }


def test_what_the_user_told_uv_stays():
    assert run.plan_uv_settings("global.index-url='https://a.example'", {"UV_DEFAULT_INDEX": "https://b.example"}) == {}


def test_a_failure_shows_what_the_command_said():
    with pytest.raises(run.SetupFailed, match="no such package") as caught:
        run.run_watched([sys.executable, "-c", "print('no such package'); raise SystemExit(3)"], doing="installing")
    assert str(caught.value).endswith("installing: failed with exit code 3")


def test_a_folder_that_is_not_an_environment_is_never_removed(tmp_path):
    precious = tmp_path / ".venv" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    with pytest.raises(run.SetupFailed, match="not a virtual environment"):
        run.make_venv(tmp_path / ".venv")
    assert precious.read_text() == "years of work"


@pytest.mark.parametrize("name", ["requirements.lock", "deploy/java.lock"])
def test_the_locks_name_versions_and_hashes_and_no_place(name):
    lines = (ROOT / name).read_text().splitlines()
    assert lines
    for line in lines:
        assert "://" not in line
        assert line.startswith(("    --hash=sha256:", "    #")) or "==" in line, line


def test_help_names_every_target():
    environment = {"PATH": os.environ["PATH"]}
    shown = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "test-slow", "lint", "types", "ui", "bench", "clean"):
        assert f"\n  {target} " in shown


def test_a_command_has_standard_files_even_where_its_starter_closed_them():
    child = "import os; print([os.readlink(f'/proc/self/fd/{number}') for number in (0, 2)])"
    prepare = "import run; run.prepare = lambda root: run.java.Java(home=root, version='17', origin='here')"
    code = f"{prepare}; run.main([{sys.executable!r}, '-c', {child!r}])"
    command = ["sh", "-c", 'exec "$0" "$@" <&- 2>&-', sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "deploy")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "['/dev/null', '/dev/null']\n")


def test_bytecode_that_may_not_lie_beside_sources_is_kept_in_the_environment(tmp_path):
    venv, home = tmp_path / ".venv", tmp_path / "java"
    active = {"PATH": f"{venv / 'bin'}{os.pathsep}/bin", "VIRTUAL_ENV": str(venv), "JAVA_HOME": str(home), "HOME": "/"}
    asked = {"PATH": "/bin", "HOME": "/", "VIRTUAL_ENV": "/other"}
    assert run.plan_variables(asked, venv, home) == active
    kept = {**active, "PYTHONPYCACHEPREFIX": str(venv / "bytecode")}
    assert run.plan_variables({**asked, "PYTHONDONTWRITEBYTECODE": "1"}, venv, home) == kept
    elsewhere = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/cache"}
    assert run.plan_variables({**asked, **elsewhere}, venv, home) == {**active, "PYTHONPYCACHEPREFIX": "/cache"}
    # As Python itself understands an empty one.
    assert run.plan_variables({**asked, "PYTHONDONTWRITEBYTECODE": ""}, venv, home) == active
    probe = [sys.executable, "-c", "import json.tool, sys; print(sys.modules['json.tool'].__cached__)"]
    done = subprocess.run(probe, env={**os.environ, **kept}, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.startswith(str(venv / "bytecode"))
