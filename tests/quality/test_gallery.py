"""Unknown expectations and arguments are refused when a suite's file is read, and Great Expectations is not imported for that."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from platform_plugin.errors import InvalidValue
from platform_plugin.quality import gallery
from platform_plugin.quality.gallery import check_gallery, has_gallery
from platform_plugin.quality.suite import parse_suite

SUITE = """
gate: true
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: id, mostly: 0.9, meta: {}}
  - type: expect_column_values_to_be_between
    kwargs:
      column: amount
      min_value: 0
"""


def check(text):
    check_gallery(parse_suite(yaml.safe_load(text), file="s.yml"), file="s.yml", text=text)


@pytest.mark.parametrize(
    ("right", "wrong", "told", "hint"),
    [
        ("_to_be_between", "_to_be_betwen", 'line 6: there is no expectation "expect_column_values_to_be_betwen"', "to_be_between?"),
        ("column: amount", "colum: amount", 'line 8: "expect_column_values_to_be_between" has no argument "colum"', "did you mean column?"),
        ("min_value", "zzz", 'line 9: "expect_column_values_to_be_between" has no argument "zzz"', "min_value, max_value"),
        ("column: amount", "max_value: 7", 'line 7: "expect_column_values_to_be_between" has no "column"', "write `column:`"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_the_nearest_name(right, wrong, told, hint):
    pytest.importorskip("great_expectations")
    check(SUITE)
    with pytest.raises(InvalidValue) as refused:
        check(SUITE.replace(right, wrong))
    assert refused.value.message == f'file "s.yml": {told}'
    assert hint in refused.value.hint


def test_the_names_are_those_that_great_expectations_registers():
    pytest.importorskip("great_expectations")
    from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

    known = gallery._list_types()
    registered = set(list_registered_expectation_implementations()) & set(known)
    assert len(known) - len(registered) <= 1, "one is imported and not registered"
    assert len(registered) > 50
    for name in registered:
        schema = gallery._read_schema(known[name])
        if schema is not None:
            fields = get_expectation_impl(name).__fields__
            assert set(fields) == {name for name in schema["properties"] if name not in gallery._NO_ARGUMENTS}
            assert {field for field, value in fields.items() if value.required} == set(schema.get("required", ()))


def test_an_expectation_of_ones_own_is_accepted_once_its_class_is_imported():
    pytest.importorskip("great_expectations")
    from great_expectations.expectations.core import ExpectColumnValuesToBeBetween
    from great_expectations.expectations.registry import _registered_expectations

    class ExpectColumnValuesToBeFine(ExpectColumnValuesToBeBetween):
        """Nothing but another name."""

    text = SUITE.replace("_to_be_between", "_to_be_fine")
    check(text)
    _registered_expectations.pop("expect_column_values_to_be_fine")
    with pytest.raises(InvalidValue, match="there is no expectation"):
        check(text)


def test_great_expectations_is_not_imported(tmp_path):
    file = tmp_path / "s.yml"
    file.write_text(SUITE)
    code = (
        "import sys\nfrom platform_plugin.cli.gates import read_suite_file\n"
        "read_suite_file(sys.argv[1])\nassert 'great_expectations' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)


def test_without_great_expectations_nothing_is_checked(monkeypatch):
    monkeypatch.setattr(gallery, "_list_types", dict)
    assert not has_gallery()
    check(SUITE.replace("_to_be_between", "_to_be_betwen"))
