"""The texts that LIKE matches are those of its domain, by Python's regular expressions."""

import re

from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.patterns import begins_with, match_domain

PIECES = {
    "%": ".*",
    "_": ".",
    "\\%": "%",
    "\\_": "_",
    "\\\\": re.escape("\\"),
    "a": "a",
    "b": "b",
    "\ud7ff": "\ud7ff",
    "\U0010ffff": "\U0010ffff",
}
texts = st.text("ab%_\\\ud7ff\ue000\U0010ffffc", max_size=4)


@given(st.lists(st.sampled_from(list(PIECES)), max_size=5), st.lists(texts))
def test_a_domain_has_every_text_that_matches(pieces, candidates):
    domain, is_exact = match_domain("".join(pieces))
    matcher = re.compile("".join(PIECES[piece] for piece in pieces), re.DOTALL)
    for text in candidates:
        matches = matcher.fullmatch(text) is not None
        assert domain.contains(text) or not matches
        assert not is_exact or domain.contains(text) == matches
    assert not domain.contains(None)


@given(texts, texts)
def test_texts_that_begin_so(prefix, text):
    assert begins_with(prefix).contains(text) == text.startswith(prefix)


def test_what_is_no_pattern_to_spark_says_nothing():
    assert match_domain("a\\b%") == (begins_with(""), False)
    assert match_domain("a\\") == (begins_with(""), False)
