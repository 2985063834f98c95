"""`Suite`: the expectations of Great Expectations in a file beside a model, and the rows that they are about."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from platform_plugin.errors import InvalidValue
from platform_plugin.language.text.places import suggest_word
from platform_plugin.quality.aggregates import check_measurable

Severity = Literal["critical", "warning", "info"]
Rows = Literal["full", "changes", "sample"]
Engine = Literal["arrow", "spark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One expectation in the form of Great Expectations."""

    type: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = "critical"

    @property
    def name(self) -> str:
        """The name of its check in Dagster.

        >>> Expectation(type="expect_column_values_to_not_be_null", kwargs={"column": "uid"}).name
        'expect_column_values_to_not_be_null__uid'
        """
        column = self.kwargs.get("column") or "_".join(str(part) for part in self.kwargs.get("column_list", ()))
        return re.sub(r"\W", "_", f"{self.type}__{column}" if column else self.type, flags=re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Expectations about a relation: all of it, the rows since the last check, or a maintained sample of it.

    `sample` names the sample where `rows` says so; `most_rows` bounds the rows that are brought over, which are none with the `engine`
    Spark. As a `gate` the critical ones are also judged before rows are published, and refuse rows that do not meet them.
    """

    expectations: tuple[Expectation, ...]
    rows: Rows = "full"
    sample: str | None = None
    most_rows: int = 1_000_000
    gate: bool = False
    engine: Engine = "arrow"
    file: str | None = field(default=None, compare=False)
    path: str | None = field(default=None, compare=False)
    """The path of the file from the working folder, for commands; None if it is elsewhere."""

    @property
    def critical(self) -> tuple[Expectation, ...]:
        """The critical expectations, which a gate requires."""
        return tuple(each for each in self.expectations if each.severity == "critical")

    @property
    def names(self) -> dict[str, Expectation]:
        """The expectations by unique names."""
        found: dict[str, Expectation] = {}
        for each in self.expectations:
            name, count = each.name, 2
            while name in found:
                name, count = f"{each.name}_{count}", count + 1
            found[name] = each
        return found


_KEYS = ("expectations", "rows", "sample", "most_rows", "gate", "engine")
# What Great Expectations itself writes into a suite's file, and what nothing here depends on.
_PASSED_OVER = {"name", "id", "meta", "notes", "great_expectations_version", "suite_parameters"}


def parse_suite(content: object, *, file: str) -> Suite:
    """The suite for the content of a YAML or JSON file; a file that Great Expectations wrote is accepted.

    >>> suite = parse_suite({"expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}}]}, file="u.yml")
    >>> suite.rows, suite.expectations[0].kwargs["column"], suite.expectations[0].severity
    ('full', 'id', 'critical')
    """
    if not isinstance(content, Mapping):
        raise InvalidValue(f'file "{file}" is not a suite', hint="it holds `expectations:`, a list of `type`, `kwargs` and `severity`")
    for key in content:
        if key not in (*_KEYS, *_PASSED_OVER):
            raise InvalidValue(
                f'file "{file}": a suite has no "{key}"', hint=suggest_word(str(key), _KEYS) or f"its keys are {_listed(_KEYS)}"
            )
    rows = content.get("rows", "full")
    if rows not in get_args(Rows):
        raise InvalidValue(f'file "{file}": rows is "{rows}"', hint=f"it is {_listed(get_args(Rows))}")
    if rows == "sample" and not content.get("sample"):
        raise InvalidValue(f'file "{file}" does not say which sample', hint="write `sample: name_of_a_sample`")
    written = content.get("expectations")
    if not isinstance(written, Sequence) or isinstance(written, str) or not written:
        raise InvalidValue(
            f'file "{file}" has no expectations', hint="write at least one, such as `- type: expect_table_row_count_to_equal`"
        )
    gate = content.get("gate", False)
    if not isinstance(gate, bool):
        raise InvalidValue(f'file "{file}": gate is "{gate}"', hint="it is true or false")
    engine = content.get("engine", "arrow")
    if engine not in get_args(Engine):
        raise InvalidValue(f'file "{file}": engine is "{engine}"', hint=f"it is {_listed(get_args(Engine))}")
    suite = Suite(
        expectations=tuple(_expectation(each, file) for each in written),
        rows=rows,
        sample=content.get("sample"),
        most_rows=int(content.get("most_rows", Suite.__dataclass_fields__["most_rows"].default)),
        gate=gate,
        engine=engine,
        file=file,
    )
    check_engine(suite, file=file)
    if gate and not suite.critical:
        raise InvalidValue(f'file "{file}" is a gate that nothing can close', hint="write `severity: critical` at an expectation")
    return suite


def check_engine(suite: Suite, *, file: str) -> None:
    """Refuse a suite with `engine: spark` that Spark can't judge."""
    if suite.engine != "spark":
        return
    if suite.rows != "full":
        hint = "leave out `engine`: those rows are few, and judged as Arrow"
        raise InvalidValue(f'file "{file}": Spark judges full relations, and rows is "{suite.rows}"', hint=hint)
    for name, each in suite.names.items():
        check_measurable(name, each, file=file)


def _expectation(written: object, file: str) -> Expectation:
    if not isinstance(written, Mapping) or not isinstance(written.get("type"), str):
        raise InvalidValue(
            f'file "{file}": an expectation has no type', detail=json.dumps(written, default=str)[:200], hint="write `type:`"
        )
    severity = written.get("severity") or "critical"
    if severity not in get_args(Severity):
        raise InvalidValue(f'file "{file}": severity is "{severity}"', hint=f"it is {_listed(get_args(Severity))}")
    return Expectation(type=written["type"], kwargs=dict(written.get("kwargs") or {}), severity=cast("Severity", severity))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
