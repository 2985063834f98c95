"""How Sphinx makes a site of these pages: `make docs`.

A page is CommonMark, as code hosts show it. Its place in the navigation is its place in the lists of the pages in `NAVIGATION`; the
heading above a list is the caption of the section. The build fails for a page that is in no list, and for a link to a page, a heading
or a picture that is not there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "platform-plugin"
extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]

myst_heading_anchors = 4
smartquotes = False  # a quotation mark in a page is the one to type

html_theme = "furo"
html_title = project
html_static_path = html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

NAVIGATION = ("index", "sql/index", "operations/index", "decisions/README")
"""Pages whose lists are the navigation."""


def plan_toctrees(text: str) -> str:
    """The table of contents that a page's lists of links amount to, one for each section, in MyST."""
    made = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        pages = re.findall(r"^(?:\* |\| )\[[^\]]+\]\(([\w./-]+)\.md\)", section, re.MULTILINE)
        heading = section.partition("\n")[0]
        caption = [] if heading.startswith("#") else [f":caption: {heading}"]
        if pages:
            made.append("\n".join(["```{toctree}", ":hidden:", *caption, "", *pages, "```"]))
    return "\n\n".join(made)


def add_toctrees(_app: Sphinx, page: str, source: list[str]) -> None:
    """Appends them when Sphinx reads the page."""
    if page in NAVIGATION:
        source[0] += f"\n\n{plan_toctrees(source[0])}\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls when it has read this file."""
    app.connect("source-read", add_toctrees)
    return {"parallel_read_safe": True}
