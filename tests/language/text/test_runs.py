"""Literals and types of several tokens are one leaf; a word before a bracket is a call only where Spark sees one."""

import pytest

from platform_plugin.language.text.runs import find_runs, is_call
from platform_plugin.language.text.tokens import tokenize


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("CAST(a AS DECIMAL(10, 2))", ["DECIMAL(10, 2)"]),
        ("a::array<int>", ["array<int>"]),
        ("TRY_CAST(CAST(a AS INT) AS STRING)", ["STRING", "INT"]),
        ("DATE '2026-01-01' + INTERVAL 3 DAYS", ["DATE '2026-01-01'", "INTERVAL 3 DAYS"]),
        ("INTERVAL '1-2' YEAR TO MONTH", ["INTERVAL '1-2' YEAR TO MONTH"]),
        ("INTERVAL a DAY", []),
        ("'a' 'b' 'c'", ["'a' 'b' 'c'"]),
    ],
)
def test_runs(text, runs):
    tokens = tokenize(text)
    assert sorted(tokens.span(first, after).text for first, after in find_runs(tokens).items()) == sorted(runs)


@pytest.mark.parametrize(
    ("text", "call"),
    [("sum(a)", True), ("IN (1)", False), ("exists(xs, x -> x)", True), ("EXISTS (SELECT 1)", False), ("trim(BOTH FROM a)", False)],
)
def test_calls(text, call):
    tokens = tokenize(text)
    assert is_call(tokens, 0, tokens.upper(0)) is call
