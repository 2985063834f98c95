"""Finds links of the pages beside `docs/` that lead nowhere; those within `docs/` are the site's to check.

python deploy/links.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent


def anchors_of(page: str) -> set[str]:
    """The addresses of a page's headings, as code hosts make them."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def find_broken(text: str, page: Path) -> Iterator[str]:
    """Links of a page's text to a file or a heading that is not there."""
    for target, anchor in re.findall(r"\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]+))?\)", text):
        file = page.parent / target if target else page
        if not file.exists():
            yield target
        elif anchor and anchor not in anchors_of(text if file == page else file.read_text()):
            yield f"{target}#{anchor}"


def main() -> int:
    """Says each on a line of its own."""
    found = [(page.name, link) for page in sorted(ROOT.glob("*.md")) for link in find_broken(page.read_text(), page)]
    for page, link in found:
        print(f"{page}: link to {link}, which is not there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
