"""The map of the package is what the code is."""

from deploy import map as drawing


def test_the_page_is_as_the_code_is():
    assert drawing.PAGE.read_text() == drawing.draw_map(), "run python deploy/map.py"
