import pickle

import pytest

from platform_plugin.errors import InvalidStatement, UnknownObject
from platform_plugin.language.text.places import Span, locate_offset, nearest_word, refusal_error, syntax_error


def test_caret_stands_under_the_place():
    error = syntax_error("SELECT *\r\n\tFORM posts", "unexpected FORM", 11, end=15, expected="FROM", hint="did you mean FROM?")
    assert (error.line, error.column) == (2, 2)
    assert error.detail.split("\n")[1:] == ["     FORM posts", "     ^^^^", "    expected FROM"]


def test_caret_is_right_after_wide_characters():
    lines = locate_offset("SELECT '数数', oops", 13, 17).shown.split("\n")
    assert lines[1].index("^") == lines[0].index("oops") + 2


def test_long_lines_are_cut_around_the_place():
    shown = locate_offset("x" * 5000 + "!" + "y" * 5000, 5000).shown
    first, second = shown.split("\n")
    assert len(first) < 120
    assert first[second.index("^")] == "!"


def test_attaches_a_place_to_errors_of_other_layers():
    source = "SELECT 1;\nSELECT * FROM psts"
    error = locate_offset(Span(source, 24, 28)).attach(UnknownObject('relation "psts" does not exist', hint="did you mean posts?"))
    assert (error.line, error.column) == (2, 15)
    assert "^^^^" in str(error)
    assert isinstance(error, UnknownObject)


def test_places_relative_to_a_span_show_the_whole_source():
    source = "CREATE VIEW v AS SELECT oops"
    assert locate_offset(Span(source, 17, len(source)), 7, 11).column == 25


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(refusal_error("x", "a rule", "said", 0)))
    assert (error.line, error.column, error.rule, error.message) == (1, 1, "a rule", "said")
    assert isinstance(error, InvalidStatement)


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [("SELCT", ["SELECT", "SET"], "SELECT"), ("POSTS", ["posts"], "posts"), ("zzz", ["posts"], None), ("x" * 10_000, ["xxxx"], None)],
)
def test_nearest_word(word, known, expected):
    assert nearest_word(word, known) == expected


def test_spans_are_equal_by_their_text():
    assert Span("ab ab", 0, 2) == Span("ab ab", 3, 5)
    assert len({Span("ab ab", 0, 2), Span("ab ab", 3, 5)}) == 1
