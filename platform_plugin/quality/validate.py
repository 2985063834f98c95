"""`run_validation`: judges rows in Arrow by the expectations of a suite."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.distribution import install_line
from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from platform_plugin.quality.suite import Expectation, Suite

_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationOutcome:
    """The outcome of one expectation; `rows` are the first rows that break it, `figures` those of Great Expectations."""

    name: str
    expectation: Expectation
    passed: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Mapping[str, str], ...] = ()
    trouble: str | None = None
    """The reason why it could not be judged, such as a missing column."""


def run_validation(suite: Suite, rows: pa.Table) -> list[ExpectationOutcome]:
    """Judge rows by each expectation; one that can't be judged has not passed."""
    try:
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig
        from great_expectations.exceptions.exceptions import GreatExpectationsError
    except ImportError as error:
        raise InvalidValue("Great Expectations is not installed", hint=install_line("quality")) from error
    # It reports every step at INFO and counts its users; neither belongs into a run.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("rows").add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": rows.to_pandas()})
    found = []
    for name, expectation in suite.names.items():
        try:
            one: Any = gx.ExpectationSuite(
                name=name, expectations=[{"type": expectation.type, "kwargs": dict(expectation.kwargs), "severity": expectation.severity}]
            )
        except (TypeError, ValueError, GreatExpectationsError) as error:
            raise InvalidValue(
                f'{_suite_text(suite)}expectation "{name}" has a wrong argument',
                detail=str(error)[:500],
                hint="see its arguments in the gallery of expectations",
            ) from error
        results = batch.validate(one, result_format={"result_format": "COMPLETE"}).results
        if not results:
            # Great Expectations only logs that it knows no such type.
            hint = "see the gallery of expectations"
            raise InvalidValue(f'{_suite_text(suite)}there is no expectation "{expectation.type}"', hint=hint)
        found.append(_finding(name, expectation, results[0], rows))
    return found


def _suite_text(suite: Suite) -> str:
    return "" if suite.file is None else f'file "{suite.file}": '


def _finding(name: str, expectation: Expectation, result: Any, table: pa.Table) -> ExpectationOutcome:
    wanted = ("element_count", "unexpected_count", "unexpected_percent", "missing_count", "observed_value")
    figures = {key: value for key, value in result.result.items() if key in wanted and isinstance(value, int | float | str)}
    places = list(result.result.get("unexpected_index_list") or [])[:_MOST_SHOWN]
    rows = tuple({column: str(value) for column, value in table.slice(int(place), 1).to_pylist()[0].items()} for place in places)
    return ExpectationOutcome(
        name=name, expectation=expectation, passed=bool(result.success), figures=figures, rows=rows, trouble=_trouble(result.exception_info)
    )


def _trouble(told: Any) -> str | None:
    """The message of what went wrong, which is either told at once or for each metric."""
    infos = [told] if isinstance(told, dict) and "raised_exception" in told else list(told.values()) if isinstance(told, dict) else []
    messages = {str(info.get("exception_message")) for info in infos if isinstance(info, dict) and info.get("raised_exception")}
    return "; ".join(sorted(messages)) or None
