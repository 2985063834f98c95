"""The site of the documentation: where a page stands in it, and what stops it."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
DOCS = PROJECT / "docs"


def test_lists_of_links_are_the_navigation():
    plan = runpy.run_path(str(DOCS / "conf.py"))["plan_toctrees"]
    text = """# Home\n\nSee [this](elsewhere.md).\n\n## Start\n\n* [One](one.md): with [two](two.md)\n* [A](sql/index.md)\n\n## More\n
| page | |\n|---|---|\n| [B](b.md) | x |\n\n## None\n"""
    assert plan(text) == (
        "```{toctree}\n:hidden:\n:caption: Start\n\none\nsql/index\n```\n\n```{toctree}\n:hidden:\n:caption: More\n\nb\n```"
    )
    assert plan("# Home\n\n* [One](one.md)\n") == "```{toctree}\n:hidden:\n\none\n```", "a page without sections has one list"


@pytest.mark.slow
def test_links_to_nowhere_fail(tmp_path):
    """With the options of the Makefile, which `make lint` uses."""
    for file in ("conf.py", "site.css"):
        shutil.copy(DOCS / file, tmp_path)
    (tmp_path / "index.md").write_text("# Home\n\n* [One](one.md)\n")
    page = tmp_path / "one.md"
    options = re.search(r"^SPHINX := sphinx-build (.*)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)[1].split()
    command = [sys.executable, "-m", "sphinx", *options, "-b", "dummy", str(tmp_path), str(tmp_path / "build")]

    def check():
        return subprocess.run(command, capture_output=True, text=True, check=False)

    page.write_text("# One\n\n[here](#one), [there](index.md#home)\n")
    assert (check().returncode, check().stderr) == (0, "")
    page.write_text("# One\n\n[a](#two) [b](index.md#nothing) [c](three.md) [d](../up.md) ![e](none.png)\n")
    (tmp_path / "lonely.md").write_text("# In no list\n")
    done = check()
    assert done.returncode
    assert done.stderr.count("one.md:3: WARNING") == 5
    assert "lonely.md: WARNING" in done.stderr
