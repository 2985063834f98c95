"""Suites: what Great Expectations writes is read, mistakes are named, and names differ."""

from __future__ import annotations

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.quality.suite import parse_suite


def test_a_file_of_great_expectations_is_a_suite():
    written = {
        "name": "users",
        "id": None,
        "meta": {"great_expectations_version": "1.24.1"},
        "notes": None,
        "expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}, "meta": {}, "severity": "warning"}],
    }
    suite = parse_suite(written, file="users.expectations.json")
    assert [(name, each.severity) for name, each in suite.names.items()] == [("expect_column_values_to_be_unique__id", "warning")]


def test_the_same_expectation_twice_has_two_names():
    twice = [{"type": "expect_column_max_to_be_between", "kwargs": {"column": "a b", "max_value": most}} for most in (1, 2)]
    assert list(parse_suite({"expectations": twice}, file="x").names) == [
        "expect_column_max_to_be_between__a_b",
        "expect_column_max_to_be_between__a_b_2",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "is not a suite"),
        ({"expectation": []}, 'has no "expectation"'),
        ({"expectations": []}, "has no expectations"),
        ({"expectations": [{"kwargs": {}}]}, "an expectation has no type"),
        ({"expectations": [{"type": "x", "severity": "bad"}]}, 'severity is "bad"'),
        ({"expectations": [{"type": "x"}], "rows": "all"}, 'rows is "all"'),
        ({"expectations": [{"type": "x"}], "rows": "sample"}, "does not say which sample"),
    ],
)
def test_a_mistake_is_named_with_its_file(content, said):
    with pytest.raises(InvalidValue, match=said) as caught:
        parse_suite(content, file="u.yml")
    assert 'file "u.yml"' in caught.value.message
    assert caught.value.hint
