"""Commands that messages tell a user to run are right for the copy of the package that tells it: of a clone, of a wheel."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import get_args

import pytest

from platform_plugin import distribution
from platform_plugin.distribution import Extra, install_line, install_line_for_scheme, is_wheel, page
from platform_plugin.errors import StorageError
from platform_plugin.lake.files.storage import Storage
from platform_plugin.relations.streams.feeds.file_listing import open_system

ROOT = Path(__file__).parents[1]
EDITABLE = '{"dir_info": {"editable": true}, "url": "file:///somewhere"}'
FROM_WHEEL = '{"archive_info": {}, "url": "file:///somewhere/platform_plugin-0.1.0-py3-none-any.whl"}'


class Installed:
    """An installed distribution, of which pip noted where it came from."""

    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.origin


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Make the package look as if it had been installed in some way, away from a clone if so asked."""

    def pretend(origin, *, clone=False):
        def find(name):
            assert name == "platform-plugin"
            if origin == "no distribution":
                raise PackageNotFoundError(name)
            return Installed(origin)

        monkeypatch.setattr(distribution, "distribution", find)
        if not clone:
            monkeypatch.setattr(distribution, "_CLONE", tmp_path)
        is_wheel.cache_clear()

    yield pretend
    monkeypatch.undo()
    is_wheel.cache_clear()


@pytest.mark.parametrize(
    ("origin", "clone", "expected"),
    [
        pytest.param(FROM_WHEEL, False, True, id="a wheel"),
        pytest.param(None, False, True, id="a wheel from an index"),
        pytest.param(EDITABLE, True, False, id="an editable clone"),
        pytest.param("no distribution", True, False, id="a clone on the path"),
    ],
)
def test_a_wheel_is_told_from_a_clone(install, origin, clone, expected):
    install(origin, clone=clone)
    assert is_wheel() is expected


def test_an_extra_is_installed_by_name_where_pip_knows_the_package(install):
    install(FROM_WHEEL)
    assert install_line("kafka").endswith('pip install "platform-plugin[kafka]"')
    install(EDITABLE, clone=True)
    assert install_line("kafka").endswith('pip install "platform-plugin[kafka]"')


def test_a_clone_that_is_not_installed_is_installed_with_the_extra(install):
    install("no distribution", clone=True)
    assert install_line("kafka").endswith(f'pip install --editable "{ROOT}[kafka]"')


def test_pip_is_named_by_path_where_the_shell_has_another(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_line("quality") == f'{sys.executable} -m pip install "platform-plugin[quality]"'
    beside = tmp_path / "bin"
    beside.mkdir()
    for name in ("python", "pip"):
        (beside / name).write_text("#!/bin/sh\n")
        (beside / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(beside), str(tmp_path)]))
    assert install_line("quality") == 'pip install "platform-plugin[quality]"'


def test_a_page_is_a_file_in_a_clone_and_a_name_beside_a_wheel(install, monkeypatch, tmp_path):
    install(EDITABLE, clone=True)
    monkeypatch.chdir(ROOT)
    assert page("views/aggregates.md") == "docs/views/aggregates.md"
    monkeypatch.chdir(tmp_path)
    assert page("views/aggregates.md") == f"{ROOT}/docs/views/aggregates.md"
    install(FROM_WHEEL)
    assert page("views/aggregates.md") == "views/aggregates.md of the documentation"


def test_every_extra_for_users_is_known():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(get_args(Extra)) == set(declared) - {"docs", "dev"}, "docs and dev are for those who work on the package"


def test_no_other_module_writes_the_command_itself():
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "platform_plugin").rglob("*.py")
        if path.name != "distribution.py"
        and re.search(r"pip install|platform-plugin\[|\bdocs/[\w/]+\.md\b[^\"'\n]*[\"']\s*[,)]", path.read_text())
    ]
    assert found == []


def test_the_pages_name_only_extras_that_there_are():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "platform_plugin" / "templates").rglob("*.template")]
    named = {
        extra for path in pages for extras in re.findall(r"platform-plugin\[([\w,]+)\]", path.read_text()) for extra in extras.split(",")
    }
    assert named
    assert named <= set(declared)


@pytest.mark.parametrize("ask", [lambda url: Storage(url).files, open_system])
def test_a_scheme_without_a_file_system_says_what_to_install(monkeypatch, ask):
    def refuse(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.url_to_fs", refuse)
    with pytest.raises(StorageError, match='no file system for "s3" is installed') as caught:
        ask("s3://bucket/folder")
    assert str(caught.value.hint).startswith(f"{install_line_for_scheme('s3')}; ")
    assert 'pip install "platform-plugin[s3]"' in str(caught.value.hint)


def test_a_scheme_that_nobody_knows_is_told_so():
    with pytest.raises(StorageError, match='no file system for "s5" is installed') as caught:
        open_system("s5://bucket/folder")
    assert "check the spelling" in str(caught.value.hint)
