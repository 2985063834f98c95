"""Expectations as Spark SQL: the aggregates that each one needs, and its judgement of their values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import InvalidValue
from platform_plugin.language.text.places import suggest_word
from platform_plugin.language.text.writing import identifier, string_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from platform_plugin.quality.suite import Expectation

    Answer = tuple[bool, dict[str, Any]]
    Types = Mapping[str, str]

_INEXACT = ("FLOAT", "DOUBLE")
_BOUNDS = {"min_value": None, "max_value": None, "strict_min": False, "strict_max": False}
# Great Expectations' own arguments that change no judgement.
_PASSED_OVER = {"result_format", "catch_exceptions", "meta", "notes", "description", "severity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteMeasure:
    """The aggregates for one expectation; `judge` takes their values and the row count, `broken` selects the rows that break it."""

    columns: tuple[str, ...]
    judge: Callable[[Sequence[Any], int], Answer]
    broken: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of expectation: its arguments with their defaults (`...` for none), and the function that makes its measure."""

    arguments: Mapping[str, Any]
    measure: Callable[[Mapping[str, Any], _Relation], SuiteMeasure]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relation:
    """The relation to measure: its text in FROM, and its columns with their types."""

    text: str
    types: Types = field(default_factory=dict)

    def value(self, column: str) -> str:
        """A column's values; NaN counts as no value, as it does for Great Expectations on Arrow."""
        return f"nanvl({identifier(column)}, NULL)" if self.types[column] in _INEXACT else identifier(column)


def check_measurable(name: str, expectation: Expectation, *, file: str) -> None:
    """Refuse an expectation that Spark can't judge: another kind, or another argument of it."""
    kind = _KINDS.get(expectation.type)
    if kind is None:
        hint = suggest_word(expectation.type, _KINDS) or f"leave out `engine: spark`; on Spark there are {', '.join(sorted(_KINDS))}"
        raise InvalidValue(f'file "{file}": expectation "{name}" can\'t be judged on Spark', hint=hint)
    given = set(expectation.kwargs) - _PASSED_OVER
    unknown = sorted(given - set(kind.arguments))
    if unknown:
        raise InvalidValue(
            f'file "{file}": expectation "{name}" can\'t be judged on Spark with "{unknown[0]}"',
            hint=f"leave out `engine: spark`, or use {', '.join(kind.arguments) or 'no argument'}",
        )
    missing = [argument for argument, value in kind.arguments.items() if value is ... and argument not in given]
    if missing:
        raise InvalidValue(f'file "{file}": expectation "{name}" has no "{missing[0]}"', hint="write it into `kwargs`")


def columns_of(expectation: Expectation) -> tuple[str, ...]:
    """The columns of an expectation."""
    said = expectation.kwargs
    one = [str(said[name]) for name in ("column", "column_A", "column_B") if name in said and expectation.type != _EXISTS]
    return (*one, *(str(each) for each in said.get("column_list", ()) if expectation.type not in _OF_NAMES))


def plan_measure(expectation: Expectation, relation: str, types: Types) -> SuiteMeasure:
    """The measure of an expectation whose columns exist."""
    kind = _KINDS[expectation.type]
    said = {**kind.arguments, **{name: value for name, value in expectation.kwargs.items() if name in kind.arguments}}
    return kind.measure(said, _Relation(text=relation, types=types))


def _literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case datetime():
            return f"TIMESTAMP {string_text(value.isoformat(sep=' '))}"
        case date():
            return f"DATE {string_text(value.isoformat())}"
        case str():
            return string_text(value)
        case _:
            raise InvalidValue(f"{value!r} can't be compared with on Spark", hint="write a number, a text, a date or a time")


def _each(holds: Callable[[Mapping[str, Any], str], str]) -> Callable[[Mapping[str, Any], _Relation], SuiteMeasure]:
    """Values of a column that each have to meet a condition; missing ones are not looked at."""

    def measure(said: Mapping[str, Any], relation: _Relation) -> SuiteMeasure:
        value = relation.value(said["column"])
        return _mostly(f"{value} IS NULL", f"NOT coalesce({holds(said, value)}, false)", said)

    return measure


def _mostly(missing: str, breaks: str, said: Mapping[str, Any]) -> SuiteMeasure:
    broken = f"NOT ({missing}) AND {breaks}"

    def judge(values: Sequence[Any], rows: int) -> dict[str, Any]:
        absent, unexpected = values
        return _share(rows - absent, unexpected, said) | {"element_count": rows, "missing_count": absent}

    return _measure((f"count_if({missing})", f"count_if({broken})"), judge, broken)


def _share(looked_at: int, unexpected: int, said: Mapping[str, Any]) -> dict[str, Any]:
    percent = 100 * unexpected / looked_at if looked_at else 0.0
    return {
        "passed": not looked_at or (looked_at - unexpected) / looked_at >= said["mostly"],
        "unexpected_count": unexpected,
        "unexpected_percent": percent,
    }


def _measure(columns: tuple[str, ...], judge: Callable[[Sequence[Any], int], dict[str, Any]], broken: str | None = None) -> SuiteMeasure:
    def told(values: Sequence[Any], rows: int) -> Answer:
        figures = judge(values, rows)
        return bool(figures.pop("passed")), figures

    return SuiteMeasure(columns=columns, judge=told, broken=broken)


def _null(*, wanted: bool) -> Callable[[Mapping[str, Any], _Relation], SuiteMeasure]:
    def measure(said: Mapping[str, Any], relation: _Relation) -> SuiteMeasure:
        broken = f"{relation.value(said['column'])} IS {'NOT ' if wanted else ''}NULL"
        return _measure((f"count_if({broken})",), lambda values, rows: _share(rows, values[0], said) | {"element_count": rows}, broken)

    return measure


def _within(said: Mapping[str, Any], value: str) -> str:
    sides = [
        f"{value} {sign}{'' if said[strict] else '='} {_literal(said[name])}"
        for name, sign, strict in (("min_value", ">", "strict_min"), ("max_value", "<", "strict_max"))
        if said[name] is not None
    ]
    return " AND ".join(sides) or "true"


def _length(said: Mapping[str, Any], value: str) -> str:
    return _within(said, f"length({value})") if "value" not in said else f"length({value}) = {_literal(said['value'])}"


def _in_set(said: Mapping[str, Any], value: str) -> str:
    listed = ", ".join(_literal(each) for each in said["value_set"] if each is not None)
    return f"{value} IN ({listed})" if listed else "false"


def _unique(said: Mapping[str, Any], relation: _Relation) -> SuiteMeasure:
    names = [said["column"]] if "column" in said else list(said["column_list"])
    values = [relation.value(name) for name in names]
    missing = " AND ".join(f"{value} IS NULL" for value in values)
    key = ", ".join(values)
    counted = f"SELECT {key}, count(*) AS n FROM {relation.text} WHERE NOT ({missing}) GROUP BY {key} HAVING count(*) > 1"
    same = f"SELECT coalesce(sum(n), 0) FROM ({counted})"
    again = f"SELECT {key} FROM {relation.text} WHERE NOT ({missing}) GROUP BY {key} HAVING count(*) > 1"

    def judge(found: Sequence[Any], rows: int) -> dict[str, Any]:
        absent, unexpected = found
        return _share(rows - absent, unexpected, said) | {"element_count": rows, "missing_count": absent}

    return _measure((f"count_if({missing})", f"({same})"), judge, f"({key}) IN ({again})")


def _pair(said: Mapping[str, Any], relation: _Relation) -> SuiteMeasure:
    one, other = relation.value(said["column_A"]), relation.value(said["column_B"])
    sign = "=" if "or_equal" not in said else ">=" if said["or_equal"] else ">"
    return _mostly(f"{one} IS NULL AND {other} IS NULL", f"NOT coalesce({one} {sign} {other}, false)", said)


def _between(aggregate: str) -> Callable[[Mapping[str, Any], _Relation], SuiteMeasure]:
    """One number of a column that has to be between bounds."""

    def measure(said: Mapping[str, Any], relation: _Relation) -> SuiteMeasure:
        asked = aggregate.format(relation.value(said["column"])) if "column" in said else aggregate
        return _measure((asked,), lambda values, _: _bounded(values[0], said))

    return measure


def _bounded(value: Any, said: Mapping[str, Any]) -> dict[str, Any]:
    bounds = [_as(value, said[name]) for name in ("min_value", "max_value")]
    low, high = bounds
    above = low is None or (value is not None and (value > low if said["strict_min"] else value >= low))
    below = high is None or (value is not None and (value < high if said["strict_max"] else value <= high))
    return {"passed": value is not None and above and below, "observed_value": _shown(value)}


def _as(value: Any, bound: Any) -> Any:
    """A bound as something that a value can be compared with: a time may be written as a text."""
    if isinstance(value, datetime):
        moment = datetime.fromisoformat(bound) if isinstance(bound, str) else bound
        return moment.replace(tzinfo=value.tzinfo) if isinstance(moment, datetime) and moment.tzinfo is None else moment
    if isinstance(value, date) and isinstance(bound, str):
        return date.fromisoformat(bound)
    return Decimal(str(bound)) if isinstance(value, Decimal) and isinstance(bound, float) else bound


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | str) else float(value) if isinstance(value, Decimal) else str(value)


def _equals(asked: str) -> Callable[[Mapping[str, Any], _Relation], SuiteMeasure]:
    def measure(said: Mapping[str, Any], _: _Relation) -> SuiteMeasure:
        return _measure((asked,), lambda values, _: {"passed": values[0] == said["value"], "observed_value": values[0]})

    return measure


def _distinct_in(said: Mapping[str, Any], relation: _Relation) -> SuiteMeasure:
    value = relation.value(said["column"])
    broken = f"{value} IS NOT NULL AND NOT {_in_set(said, value)}"
    others = f"count(DISTINCT CASE WHEN {broken} THEN {value} END)"
    return _measure((others,), lambda values, _: {"passed": not values[0], "unexpected_count": values[0]}, broken)


def _names(
    holds: Callable[[Mapping[str, Any], list[str]], bool], shown: Callable[[list[str]], Any] = ", ".join
) -> Callable[[Mapping[str, Any], _Relation], SuiteMeasure]:
    """What is known of the columns without a query."""

    def measure(said: Mapping[str, Any], relation: _Relation) -> SuiteMeasure:
        names = list(relation.types)
        return _measure((), lambda _values, _rows: {"passed": holds(said, names), "observed_value": shown(names)})

    return measure


def _counted(said: Mapping[str, Any], names: list[str]) -> bool:
    return len(names) == said["value"] if "value" in said else bool(_bounded(len(names), {**_BOUNDS, **said})["passed"])


_COLUMN, _MOSTLY = {"column": ...}, {"mostly": 1.0}
_EXISTS, _ORDERED, _SET = "expect_column_to_exist", "expect_table_columns_to_match_ordered_list", "expect_table_columns_to_match_set"
_OF_NAMES = (_ORDERED, _SET)
_REGEX = _COLUMN | {"regex": ...} | _MOSTLY
_VALUES = _COLUMN | {"value_set": ...}
_LIMITS = {"min_value": None, "max_value": None}
_AGGREGATES = {
    "min": "min({})",
    "max": "max({})",
    "mean": "avg({})",
    "sum": "coalesce(sum({}), 0)",
    "median": "median({})",
    "stdev": "stddev_samp({})",
    "unique_value_count": "count(DISTINCT {})",
    "proportion_of_unique_values": "coalesce(try_divide(count(DISTINCT {0}), count({0})), 0)",
}
_KINDS: dict[str, _Kind] = {
    "expect_column_values_to_not_be_null": _Kind(arguments=_COLUMN | _MOSTLY, measure=_null(wanted=False)),
    "expect_column_values_to_be_null": _Kind(arguments=_COLUMN | _MOSTLY, measure=_null(wanted=True)),
    "expect_column_values_to_be_between": _Kind(arguments=_COLUMN | _BOUNDS | _MOSTLY, measure=_each(_within)),
    "expect_column_values_to_be_in_set": _Kind(arguments=_VALUES | _MOSTLY, measure=_each(_in_set)),
    "expect_column_values_to_not_be_in_set": _Kind(
        arguments=_VALUES | _MOSTLY, measure=_each(lambda said, value: f"NOT {_in_set(said, value)}")
    ),
    "expect_column_values_to_match_regex": _Kind(
        arguments=_REGEX, measure=_each(lambda said, value: f"{value} RLIKE {_literal(said['regex'])}")
    ),
    "expect_column_values_to_not_match_regex": _Kind(
        arguments=_REGEX, measure=_each(lambda said, value: f"NOT {value} RLIKE {_literal(said['regex'])}")
    ),
    "expect_column_value_lengths_to_be_between": _Kind(arguments=_COLUMN | _BOUNDS | _MOSTLY, measure=_each(_length)),
    "expect_column_value_lengths_to_equal": _Kind(arguments=_COLUMN | {"value": ...} | _MOSTLY, measure=_each(_length)),
    "expect_column_values_to_be_unique": _Kind(arguments=_COLUMN | _MOSTLY, measure=_unique),
    "expect_compound_columns_to_be_unique": _Kind(arguments={"column_list": ...} | _MOSTLY, measure=_unique),
    "expect_column_pair_values_a_to_be_greater_than_b": _Kind(
        arguments={"column_A": ..., "column_B": ..., "or_equal": False} | _MOSTLY, measure=_pair
    ),
    "expect_column_pair_values_to_be_equal": _Kind(arguments={"column_A": ..., "column_B": ...} | _MOSTLY, measure=_pair),
    "expect_column_distinct_values_to_be_in_set": _Kind(arguments=_VALUES, measure=_distinct_in),
    **{
        f"expect_column_{name}_to_be_between": _Kind(arguments=_COLUMN | _BOUNDS, measure=_between(asked))
        for name, asked in _AGGREGATES.items()
    },
    "expect_table_row_count_to_be_between": _Kind(arguments=_BOUNDS, measure=_between("count(*)")),
    "expect_table_row_count_to_equal": _Kind(arguments={"value": ...}, measure=_equals("count(*)")),
    "expect_table_column_count_to_be_between": _Kind(arguments=_LIMITS, measure=_names(_counted, len)),
    "expect_table_column_count_to_equal": _Kind(arguments={"value": ...}, measure=_names(_counted, len)),
    _EXISTS: _Kind(arguments=_COLUMN, measure=_names(lambda said, names: said["column"] in names)),
    _ORDERED: _Kind(arguments={"column_list": ...}, measure=_names(lambda said, names: list(said["column_list"]) == names)),
    _SET: _Kind(arguments={"column_set": ...}, measure=_names(lambda said, names: set(said["column_set"]) == set(names))),
}
