"""Cases are read with every fault at its place, and a difference is told row by row."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from platform_plugin.errors import InvalidFiles, InvalidValue, UnknownObject
from platform_plugin.quality.cases import find_cases, parse_case
from platform_plugin.quality.difference import find_difference


def parse(body):
    return parse_case("c", body, Path("v.test.yml"), Path("v.sql"))


def test_expectations_are_by_epoch_or_of_the_end():
    rows = [{"n": 1}]
    by_epoch = parse({"given": [{"s": rows}, {"s": []}], "expect": [None, rows]})
    at_the_end = parse({"given": [{"s": rows}, {"s": []}], "expect": rows})
    assert by_epoch == at_the_end
    assert [epoch.expect for epoch in by_epoch.epochs] == [None, ({"n": 1},)]
    single = parse({"given": {"s": rows}, "expect": []})
    assert [(epoch.given, epoch.expect) for epoch in single.epochs] == [({"s": ({"n": 1},)}, ())]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (None, "it is empty"),
        ({"given": {}, "expects": []}, '"expects" is no part'),
        ({"given": [[1]], "expect": []}, "not epochs of rows"),
        ({"given": {"s": [1]}, "expect": []}, "not epochs of rows"),
        ({"given": {"s": []}}, "expects nothing"),
        ({"given": {"s": []}, "expect": [1]}, "is neither rows"),
        ({"given": [{"s": []}], "expect": [None, []]}, "for each epoch, of which `given` has 1"),
    ],
)
def test_what_is_wrong_is_said(body, says):
    with pytest.raises(InvalidValue, match=says):
        parse(body)


def test_a_typo_is_told_with_file_line_and_the_word_that_was_meant(tmp_path):
    (tmp_path / "v.sql").write_text("CREATE VIEW v AS SELECT 1 AS n")
    (tmp_path / "v.test.yml").write_text("one:\n  expect: []\ntwo:\n  givven: {}\n  expect: []\n")
    (tmp_path / "u.sql").write_text("CREATE VIEW u AS SELECT 1 AS n")
    (tmp_path / "u.test.yml").write_text("one:\n  given: {}\n  expext: []\n")
    with pytest.raises(InvalidFiles, match="2 errors in files") as caught:
        find_cases(tmp_path)
    assert [(error.message, error.hint) for error in caught.value.errors] == [
        ('case "one" in "u.test.yml", line 3: "expext" is no part of a case', "did you mean expect?"),
        ('case "two" in "v.test.yml", line 4: "givven" is no part of a case', "did you mean given?"),
    ]


def test_files_are_found_beside_their_views(tmp_path):
    (tmp_path / "v.sql").write_text("CREATE VIEW v AS SELECT 1 AS n")
    (tmp_path / "v.test.yml").write_text("one:\n  expect: [{n: 1}]\n")
    assert [str(case) for case in find_cases(tmp_path)] == ["v.test.yml: one"]
    (tmp_path / "w.test.yml").write_text("one:\n  expect: []\n")
    with pytest.raises(UnknownObject, match=r"tests \"w\.sql\", which is not there"):
        find_cases(tmp_path)
    (tmp_path / "w.test.yml").unlink()
    (tmp_path / "v.test.yml").write_text("one: [")
    with pytest.raises(InvalidValue, match="is not YAML"):
        find_cases(tmp_path)


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.001, False),
        (0.3, Decimal("0.300"), True),
        (0.3, Decimal("0.301"), False),
        (1, True, False),
        (True, 1, False),
        (None, 0, False),
        (1, 1.0, True),
        ([1, 2.0], [1, 2.0], True),
        (datetime(2026, 1, 1), datetime(2026, 1, 1), True),  # noqa: DTZ001  as YAML has it
        ("a", "b", False),
    ],
)
def test_values_are_compared_as_people_mean_them(expected, found, same):
    assert (find_difference([{"x": expected}], [{"x": found}]) is None) == same


def test_rows_are_a_bag_and_columns_that_nobody_names_do_not_count():
    assert find_difference([{"a": 1}, {"a": 1}], [{"a": 1, "b": 2}, {"a": 1, "b": 3}]) is None
    assert "+ got       1" in str(find_difference([{"a": 1}], [{"a": 1}, {"a": 1}]))
    assert "- expected  NULL" in str(find_difference([{"a": None}], []))
    assert 'no column "c"' in str(find_difference([{"c": 1}], [{"a": 1}]))
