"""The text of a plan knows the places of its parts in the user's text."""

import pytest

from platform_plugin.relations.bind.query import render_plan
from tests.algebra.rules.plans import plan_sizes

TEXT = (
    "SELECT score\nFROM regions r JOIN users u ON r.name = u.region\nJOIN posts p ON p.uid = u.id WHERE p.score > 5 AND topic = 'a' || 'b'"
)


@pytest.mark.parametrize("word", ["score", "name", "uid", "region", "topic", "'a'", "'b'", "5"])
def test_places_point_into_the_users_text(word):
    query, plan = plan_sizes(TEXT)
    rendered = render_plan(query, plan.planned, {reference: f"v{reference.index}" for reference in query.relations})
    place = rendered.at(rendered.text.index(word))
    lines = TEXT.split("\n")
    assert lines[place.line - 1][place.column - 1 :].startswith(word)


def test_no_mark_is_left():
    query, plan = plan_sizes(TEXT)
    rendered = render_plan(query, plan.planned, {reference: f"v{reference.index}" for reference in query.relations})
    assert rendered.text.isascii()
