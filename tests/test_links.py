"""Links of the pages beside `docs/`, which `make lint` checks by `deploy/links.py`."""

from pathlib import Path

from links import anchors_of, find_broken

README = Path(__file__).parent.parent / "README.md"


def test_what_leads_nowhere_is_found():
    text = """# A page
[a](docs/sql/index.md) [b](docs/none.md) [c](docs/lake.md#writing) [d](docs/lake.md#written) [e](#none) [f](#a-page) [g](https://x.example/y#z)
"""
    assert list(find_broken(text, README)) == ["docs/none.md", "docs/lake.md#written", "#none"]


def test_headings_have_the_addresses_that_code_hosts_give_them():
    page = "# A page\n## `make docs`: the [site](x.md)\n```\n# no heading\n```\n"
    assert anchors_of(page) == {"a-page", "make-docs-the-site"}
