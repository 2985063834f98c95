"""`Limits`: the sizes that decide between the engines or bound what one process does, each with what it was measured by.

A workspace has its own limits. Each has a default; the environment, the URL of the lake and the caller may set another, in that order.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import InvalidValue
from platform_plugin.language.text.options import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE_PREFIX = "PLATFORM_LIMIT_"
URL_PREFIX = "limit_"
"""The URL option of a limit is this and its name."""
_LARGEST = 1 << 62
_ENGINES = "the decision for two engines: an empty Spark job takes 47 to 78 ms; "


def _limit(default: int, *, decides: str, measured: str, least: int = 0) -> Any:
    return field(default=default, metadata={"decides": decides, "measured": measured, "least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a workspace; the last word of a name is its unit.

    >>> Limits().client_tail_rows, read_limits({"client_tail_rows": 10}, environment={}).client_tail_rows
    (250000, 10)
    """

    client_range_rows: int = _limit(
        4_000_000,
        decides="a maintenance run reads a range of up to so many rows in its own process; a larger one is a Spark job",
        measured="make bench NAME=fanout: a bound on the client's memory; with 6 views 0.16 s for a million rows in the process, "
        "0.35 s by file tasks, and for 10 million 0.66 and 0.88 s",
    )
    client_range_bytes: int = _limit(
        128 << 20, decides="the same, by the bytes of the range's files", measured="the decision for two engines, as client_range_rows"
    )
    task_least_rows: int = _limit(
        500_000,
        least=1,
        decides="a task of a job reads at least about so many rows, so that a small range has few tasks and few files",
        measured="make bench NAME=fanout: a job without rows takes 0.2 s, a task reads half a million rows for 6 views in 0.05 s",
    )
    task_part_rows: int = _limit(
        8_000_000,
        least=1,
        decides="a task of a job has up to about so many rows of its share in memory, a row group at least",
        measured="make bench NAME=fanout: over 20 million rows file tasks take 0.93 to 1.2 times as long as the process with a million "
        "rows, 0.8 to 0.96 with 12 million; a bound on the memory of workers",
    )
    task_state_bytes: int = _limit(
        256 << 20,
        decides="a task of a job merges files of a state of up to so many bytes; more are merged by Spark SQL",
        measured="make bench NAME=fanout: a bound on memory, no trade-off; rows are 3 to 6 times as large there as in files",
    )
    sent_range_rows: int = _limit(
        20_000,
        decides="the rows of a range of up to so many that Spark has to group travel with the query, in one partition",
        measured="make bench NAME=views_many: 49 views on 8 streams, a hundred rows of each",
    )
    sent_range_bytes: int = _limit(
        1 << 20,
        decides="the same, by the bytes of files of the range and of each table that is looked up",
        measured="make bench NAME=limits: a query with 1 KiB of rows takes 0.11 s, with 1 MiB 0.31 s, with 8 MiB 2.7 s",
    )
    client_tail_rows: int = _limit(
        250_000,
        decides="a read of a view computes up to so many unconsumed rows of each stream in its own process",
        measured=_ENGINES + "a read of a changed view of 100 000 groups 17 to 28 ms in the process, 63 to 66 ms on Spark",
    )
    client_change_rows: int = _limit(
        250_000,
        decides="the changes of a table that a query asks for are read in the process if they are at most so many rows; more are Spark's",
        measured="make bench NAME=limits: net changes of 250 000 rows 0.20 s in the process at load 7",
    )
    client_change_bytes: int = _limit(
        64 << 20,
        decides="the same, by the bytes of the files in which they are",
        measured="make bench NAME=limits: a bound on memory; 250 000 rows of 16 columns are 8 MB of files, and 3 to 6 "
        "times as much in memory",
    )
    client_state_bytes: int = _limit(
        64 << 20,
        decides="a read of a view merges states of less than so many bytes of files in its own process, and so does compaction; 0 is never",
        measured=_ENGINES + "a read of a changed view of 100 000 groups 17 to 28 ms in the process, 63 to 66 ms on Spark",
    )
    small_table_bytes: int = _limit(
        16 << 20,
        decides="a table of up to so many bytes of files is read into the process: for look-ups, and as the other side of a view's join",
        measured="make bench NAME=door: a look-up 0.04 ms from rows in memory, a point filter by Spark 72 to 78 ms",
    )
    small_table_files: int = _limit(
        64,
        decides="the same, by the number of files",
        measured="make bench NAME=limits: 6 400 rows from 64 files 127 ms, from one 9 ms, at load 7",
    )
    hot_bytes: int = _limit(
        4 << 30,
        decides="uncompressed copies of stored files in which rows are found by key have at most so many bytes on the client's disk; "
        "with 0 there are none",
        measured="make bench NAME=limits: a bound on the client's disk, no trade-off; a copy takes 5.6 times the bytes of its file",
    )
    lookup_result_bytes: int = _limit(
        4 << 20,
        decides="the rows of a view that a look-up has computed stay in memory up to so many bytes until the next snapshot",
        measured="make bench NAME=limits: a bound on memory, no trade-off; 131 000 groups with two aggregates",
    )
    inline_result_bytes: int = _limit(
        1 << 20,
        decides="a view's rows that were computed in the process travel with a Spark query up to so many bytes",
        measured="make bench NAME=limits: a query with 1 KiB of rows takes 0.11 s, with 1 MiB 0.31 s, with 8 MiB 2.7 s",
    )
    small_query_rows: int = _limit(
        10_000,
        decides="the result of a query that reads up to so many rows is fetched without asking Spark for its size first, "
        "which saves some milliseconds",
        measured="make bench NAME=limits: 0.11 s for 10 000 rows, 1.34 times as long where the size is asked for",
    )
    small_query_bytes: int = _limit(
        1 << 20,
        decides="the same, by the bytes of the files that are read",
        measured="make bench NAME=limits, as small_query_rows",
    )
    broadcast_bytes: int = _limit(
        64 << 20,
        decides="a table that is joined to a stream goes whole to every executor up to so many bytes of files; "
        "a larger one is hashed in shuffled parts",
        measured="make bench NAME=limits: a table of a million rows joined with one of as many takes 0.79 s whole and 0.67 s in parts, "
        "on one machine; on several the parts of the stream would travel, too",
    )
    plan_files: int = _limit(
        1_000,
        decides="the first row ids of up to so many files stand in Spark's plan; those of more files are joined",
        measured="make bench NAME=samples: the file of a row costs 20 ns by a checksum in the plan, 170 ns by a join",
    )
    plan_positions: int = _limit(
        50_000,
        decides="up to so many deleted positions travel with a query; more are read from the delete files by Spark",
        measured="make bench NAME=limits: with 5 000, 60 000 and 200 000 of a million positions, reading them takes 0.95, 0.85 and 0.58 "
        "times as long as sending them, with 20 000 1.5 times",
    )
    foreign_file_bytes: int = _limit(
        64 << 20,
        decides="files of other programs without field ids are read by the client up to so many bytes; a table of more is refused",
        measured="make bench NAME=limits: a bound on memory, no trade-off; each byte of a file is 3.5 in memory, and 45 "
        "MiB take 0.6 s at load 7",
    )
    result_memory_bytes: int = _limit(
        32 << 20,
        decides="a result waits for its reader in memory up to so many bytes, and beyond in a temporary file",
        measured="make bench NAME=limits: a bound on memory; beyond it 727 MiB a second pass through the file",
    )
    write_memory_bytes: int = _limit(
        256 << 20,
        least=1,
        decides="changed rows that the client writes wait in memory up to so many bytes before they become a file",
        measured="make bench NAME=limits: a bound on memory, no trade-off; 1.6 million rows of 16 columns of 165 bytes",
    )
    before_image_rows: int = _limit(
        4_000_000,
        decides="UPDATE and DELETE write up to so many rows in the client: their before-images for feeds of changes, and the new rows; "
        "more are written by Spark's tasks",
        measured="make bench NAME=limits: 125 000 before-images 0.26 s at load 7, so some eight seconds for as many as the limit",
    )
    state_memory_bytes: int = _limit(
        64 << 20,
        least=1,
        decides="rows of a view's state that Spark computed wait in memory up to so many bytes before they become a file",
        measured="make bench NAME=limits: a bound on memory, no trade-off; two million groups with two aggregates of 32 bytes",
    )
    session_merge_rows: int = _limit(
        100_000,
        decides="a session read merges the groups of its segments when they are more than so many rows",
        measured="make bench NAME=limits: a bound on memory, no trade-off; so many groups with two aggregates are 3 MiB",
    )
    estimate_rows: int = _limit(
        500_000,
        least=1,
        decides="an estimate draws at most so many single rows, or rows in blocks where Spark computes it",
        measured="make bench NAME=limits: 50 000 single rows of 2 columns 0.08 s at load 7, as long as all million rows "
        "among which they are",
    )
    estimate_block_rows: int = _limit(
        4_000_000,
        least=1,
        decides="an estimate that the process computes itself draws at most so many rows in blocks",
        measured="make bench NAME=limits: 2 columns of a million rows 0.08 s at load 7",
    )
    client_draw_rows: int = _limit(
        200_000_000,
        decides="a sample is drawn in the process from up to so many rows; a larger range is read by tasks on the executors",
        measured="make bench NAME=samples: with a condition that half of the rows pass 65 ms in the process, "
        "384 ms by Spark's operators, over the same rows",
    )
    histogram_rows: int = _limit(
        5_000_000,
        decides="a plot reads the columns of a population of up to so many rows",
        measured="make bench NAME=limits: a histogram of a million values 15 ms at load 7",
    )
    run_histogram_rows: int = _limit(
        500_000,
        decides="the same, for the plot that a Dagster run stores with a sample",
        measured="make bench NAME=limits: as histogram_rows",
    )
    reconcile_rows: int = _limit(
        200_000,
        decides="a check of a view against its own query compares at most so many rows at once, and is refused beyond",
        measured="make bench NAME=limits: a bound on memory and time; 200 000 rows of 3 columns are compared in 1.0 s at load 7",
    )
    reconcile_part_rows: int = _limit(
        50_000,
        least=1,
        decides="an asset check of a view compares a part of about so many rows at each snapshot",
        measured="make bench NAME=limits: 50 000 rows of 3 columns are compared in 0.23 s at load 7",
    )
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where the limits were set that have no default value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFacts:
    """One line of the table: what a limit decides, the measurement that its default comes from, and its least value."""

    name: str
    default: int
    decides: str
    measured: str
    least: int

    @property
    def unit(self) -> str:
        """What it counts: rows, bytes, files or positions."""
        return self.name.rpartition("_")[2]


_FIELDS: tuple[Any, ...] = tuple(one for one in fields(Limits) if one.name != "origins")
LIMITS: tuple[LimitFacts, ...] = tuple(LimitFacts(name=one.name, default=one.default, **one.metadata) for one in _FIELDS)
_BY_NAME = {facts.name: facts for facts in LIMITS}


def read_limits(
    options: Mapping[str, int | str] | None = None,
    *,
    url: Mapping[str, str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Limits:
    """The limits of a workspace: the caller's `options` before those of the `url`, and these before the environment's.

    >>> read_limits(url={"broadcast_bytes": "1 MiB"}, environment={"PLATFORM_LIMIT_BROADCAST_BYTES": "7"}).broadcast_bytes
    1048576
    """
    values: dict[str, int] = {}
    origins: dict[str, str] = {}
    for prefix, given, origin in (
        (VARIABLE_PREFIX, _of_environment(environment), "environment"),
        (URL_PREFIX, url or {}, "URL"),
        ("", options or {}, "option"),
    ):
        for name, value in given.items():
            shown = f"{prefix}{name.upper() if prefix == VARIABLE_PREFIX else name}"
            values[name] = _read_value(name, value, shown)
            origins[name] = f"{origin} {shown}"
    return Limits(**values, origins=origins)


def list_limits(limits: Limits) -> list[dict[str, Any]]:
    """The rows of SHOW LIMITS."""
    return [
        {
            "name": facts.name,
            "value": getattr(limits, facts.name),
            "default": facts.default,
            "set_by": limits.origins.get(facts.name, "default"),
            "decides": facts.decides,
            "measured": facts.measured,
        }
        for facts in LIMITS
    ]


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        variable.removeprefix(VARIABLE_PREFIX).lower(): value
        for variable, value in environment.items()
        if variable.startswith(VARIABLE_PREFIX)
    }


def _read_value(name: str, value: object, shown: str) -> int:
    facts = _BY_NAME.get(name)
    if facts is None:
        near = difflib.get_close_matches(name, _BY_NAME, n=1)
        raise InvalidValue(f'"{shown}" is no limit', hint=f"did you mean {near[0]}?" if near else "SHOW LIMITS lists them")
    number = value if isinstance(value, int) and not isinstance(value, bool) else _parse(str(value), facts.unit)
    if number is None or not facts.least <= number <= _LARGEST:
        example = "64 MiB or a number of bytes" if facts.unit == "bytes" else f"a whole number of {facts.unit}"
        least = f", at least {facts.least}" if facts.least else ""
        raise InvalidValue(f'limit "{shown}" is "{value}", which is no number of {facts.unit}', hint=f"write {example}{least}")
    return number


def _parse(text: str, unit: str) -> int | None:
    if unit == "bytes":
        return parse_size(text)
    digits = text.strip().replace("_", "")
    return int(digits) if digits.isascii() and digits.isdigit() else None
