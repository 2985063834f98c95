"""`run_suite`: judges all rows of a relation at one snapshot by a suite, with Arrow or with aggregates on Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.language.text.writing import identifier, type_text
from platform_plugin.quality.aggregates import columns_of, plan_measure
from platform_plugin.quality.validate import ExpectationOutcome, run_validation
from platform_plugin.relations.bind.query import bind_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.platform import Platform
    from platform_plugin.quality.aggregates import SuiteMeasure
    from platform_plugin.quality.suite import Engine, Suite

_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSuite:
    """The outcome of a suite for a relation at a snapshot, with the rows judged and the bytes read or brought over for it."""

    snapshot: int
    engine: Engine
    rows: int
    bytes: int
    seconds: float
    jobs: int = 0
    findings: tuple[ExpectationOutcome, ...] = ()

    @property
    def cost(self) -> dict[str, Any]:
        """The figures of the cost."""
        return {"rows": self.rows, "bytes": self.bytes, "seconds": round(self.seconds, 3), "jobs": self.jobs, "engine": self.engine}


def run_suite(platform: Platform, name: Name, suite: Suite) -> JudgedSuite:
    """Judge all rows of a relation at the newest snapshot; with Arrow no more rows than the suite allows."""
    with platform.lake.lease(holder="suite") as lease:
        relation = f"{identifier(name.schema)}.{identifier(name.relation)} AT (VERSION => {lease.snapshot.id})"
        if suite.engine == "spark":
            return _Spark(platform, relation, lease.snapshot.id).run(suite)
        began = time.monotonic()
        rows = platform.execute(f"SELECT * FROM {relation} LIMIT {suite.most_rows}").arrow()
        findings = run_validation(suite, rows)
        seconds = time.monotonic() - began
        return JudgedSuite(
            snapshot=lease.snapshot.id, engine="arrow", rows=rows.num_rows, bytes=rows.nbytes, seconds=seconds, findings=tuple(findings)
        )


class _Spark:
    """Runs one query for all expectations of a suite, and one more for the rows that break each."""

    def __init__(self, platform: Platform, relation: str, snapshot: int) -> None:
        self._platform = platform
        self._relation = relation
        self._snapshot = snapshot
        self._jobs = self._bytes = self._rows = 0

    def run(self, suite: Suite) -> JudgedSuite:
        began = time.monotonic()
        types = self._types()
        known: dict[str, ExpectationOutcome] = {}
        measures: dict[str, SuiteMeasure] = {}
        for name, each in suite.names.items():
            absent = next((column for column in columns_of(each) if column not in types), None)
            if absent is not None:
                known[name] = ExpectationOutcome(name=name, expectation=each, passed=False, trouble=f'there is no column "{absent}"')
            else:
                measures[name] = plan_measure(each, self._relation, types)
        answers = self._ask_all(measures)
        for name, answer in answers.items():
            each = suite.names[name]
            if isinstance(answer, PlatformError):
                known[name] = ExpectationOutcome(name=name, expectation=each, passed=False, trouble=answer.detail or answer.message)
                continue
            passed, figures = measures[name].judge(answer, self._rows)
            broken = measures[name].broken
            rows = self._broken(broken) if broken is not None and not passed else ()
            known[name] = ExpectationOutcome(name=name, expectation=each, passed=passed, figures=_counted(figures), rows=rows)
        return JudgedSuite(
            snapshot=self._snapshot,
            engine="spark",
            rows=self._rows,
            bytes=self._bytes,
            seconds=time.monotonic() - began,
            jobs=self._jobs,
            findings=tuple(known[name] for name in suite.names),
        )

    def _types(self) -> dict[str, str]:
        from platform_plugin.engine.spark.frames.schema import from_spark_type

        work = self._platform.work
        with work.session.job():
            schema = bind_query(work, f"SELECT * FROM {self._relation}", work.lake.snapshot()).frame.schema
        return {each.name: type_text(from_spark_type(each.dataType, column=each.name)) for each in schema.fields}

    def _ask_all(self, measures: Mapping[str, SuiteMeasure]) -> dict[str, tuple[Any, ...] | PlatformError]:
        """The answers to all; one that Spark can't compute costs the others nothing but a query each."""
        try:
            return self._ask(measures)
        except QueryFailed as error:
            if len(measures) == 1:
                return dict.fromkeys(measures, error)
        return {name: answer for name, measure in measures.items() for answer in self._ask_all({name: measure}).values()}

    def _ask(self, measures: Mapping[str, SuiteMeasure]) -> dict[str, tuple[Any, ...] | PlatformError]:
        columns = [column for measure in measures.values() for column in measure.columns]
        _, ((self._rows, *values),) = self._query(f"SELECT {', '.join(['count(*)', *columns])} FROM {self._relation}")
        found: dict[str, tuple[Any, ...] | PlatformError] = {}
        for name, measure in measures.items():
            found[name], values = tuple(values[: len(measure.columns)]), values[len(measure.columns) :]
        return found

    def _query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        with self._platform.execute(sql) as result:
            rows = [tuple(row) for row in result]
            columns, metrics = result.columns, result.metrics
        self._jobs += 0 if metrics is None else metrics.jobs or 0
        self._bytes += 0 if metrics is None else metrics.bytes_read
        return columns, rows

    def _broken(self, condition: str) -> tuple[dict[str, str], ...]:
        columns, rows = self._query(f"SELECT * FROM {self._relation} WHERE {condition} LIMIT {_MOST_SHOWN}")
        return tuple({name: str(value) for name, value in zip(columns, row, strict=True)} for row in rows)


def _counted(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if isinstance(value, int | float | str)}
