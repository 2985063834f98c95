from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.language.text.options import parse_duration, parse_size
from platform_plugin.language.text.writing import duration_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 hour", timedelta(hours=1)),
        ("5 seconds", timedelta(seconds=5)),
        ("500ms", timedelta(milliseconds=500)),
        ("1 day, 2 hours 3 min", timedelta(days=1, hours=2, minutes=3)),
        ("1.5 h", timedelta(minutes=90)),
        ("0 seconds", None),
        ("-1 hour", None),
        ("1 fortnight", None),
        ("", None),
        ("9" * 15 + " weeks", None),
    ],
)
def test_durations(text, expected):
    assert parse_duration(text) == expected


@given(st.timedeltas(min_value=timedelta(microseconds=1)))
def test_durations_read_back_from_their_own_text(value):
    assert parse_duration(duration_text(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"), [("10", 10), ("1 KiB", 1024), ("1.5mb", 1_500_000), ("x", None), ("1 XB", None), ("-1", None)]
)
def test_sizes(text, expected):
    assert parse_size(text) == expected
