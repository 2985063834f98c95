from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from platform_plugin.errors import InvalidStatement
from platform_plugin.language.text.tokens import tokenize
from platform_plugin.language.text.values import Literal, Parameter, find_parameters, read_cell, string_value


# Each pair was read off Spark 4.3 itself.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        (r"'a\nb\tc\\d\'e'", "a\nb\tc\\d'e"),
        (r"'\u0041\U0001F600\101\0x'", "A😀A\0x"),
        (r"'\%\_\q'", r"\%\_q"),
        (r"r'\n'", r"\n"),
        ('"a""b"', 'a"b'),
        (r"'\400'", "400"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\ud83d'", "?"),
        ("'''x'", "'x"),
        ("'\\\n'", "\n"),
    ],
)
def test_strings_mean_what_spark_takes_them_for(text, value):
    assert string_value(text) == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("42", "integer", 42),
        ("-42", "integer", -42),
        ("5L", "integer", 5),
        ("1.50", "decimal", Decimal("1.50")),
        ("1e3", "double", 1000.0),
        ("1e3BD", "decimal", Decimal("1e3")),
        ("2F", "double", 2.0),
        ("0.1F", "double", 0.10000000149011612),
        ("-1e39F", "double", -1e39),
        ("NULL", "null", None),
        ("default", "default", None),
        ("TRUE", "boolean", True),
        ("'a' 'b'", "string", "ab"),
        ("X'0F1'", "binary", b"\x00\xf1"),
        ("DATE '2026-02-28'", "date", date(2026, 2, 28)),
        ("TIMESTAMP '2026-02-28 01:02:03.5'", "timestamp", datetime(2026, 2, 28, 1, 2, 3, 500_000)),  # noqa: DTZ001
        ("TIMESTAMP '2026-02-28T01:02Z'", "timestamp", datetime(2026, 2, 28, 1, 2, tzinfo=UTC)),
        ("TIMESTAMP '2026-02-28 00:00:00+01:00'", "timestamp", datetime(2026, 2, 28, tzinfo=timezone(timedelta(hours=1)))),
        ("TIMESTAMP_NTZ '2026-02-28'", "timestamp_ntz", datetime(2026, 2, 28)),  # noqa: DTZ001
    ],
)
def test_literals(text, kind, value):
    tokens = tokenize(text)
    assert read_cell(tokens, 0, {}) == (Literal(kind, value), len(tokens))


@pytest.mark.parametrize("text", ["now()", "x", "DATE '2026-02-30'", "DATE 'today'", "(1)", "- 'a'", "X'zz'", "TIMESTAMP '12:00'"])
def test_all_else_is_left_to_spark(text):
    found = read_cell(tokenize(text), 0, {})
    assert found is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = :x AND b IN (:y, :x)", ["x", "y", "x"]),
        ("':x' -- :y\n `:z` /* :w */ \":v\"", []),
        ("CAST(a AS STRUCT<b:INT, c:ARRAY<STRUCT<d:INT>>>) = :x", ["x"]),
        ("payload:name.first = :x AND `p`:a = f(y):b", ["x"]),
        ("a::int = :x LIMIT :n", ["x", "n"]),
    ],
)
def test_named_parameters_are_found_by_tokens(text, names):
    tokens = tokenize(text)
    assert [parameter.name for parameter in find_parameters(tokens, 0, len(tokens)).values()] == names


def test_positional_parameters_are_numbered():
    tokens = tokenize("? + ?")
    assert list(find_parameters(tokens, 0, 3).values()) == [
        Parameter(index=0, span=tokens.span(0, 1)),
        Parameter(index=1, span=tokens.span(2, 3)),
    ]


def test_one_style_of_parameter_a_statement():
    tokens = tokenize("? + :x")
    with pytest.raises(InvalidStatement, match=r"\? and :name"):
        find_parameters(tokens, 0, len(tokens))
