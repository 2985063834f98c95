"""Whatever is done to a table, in whatever order and by whom, three agree on its rows: the platform, DuckDB and plain Python."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.platform import Platform

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
INT = st.integers(-(2**31), 2**31 - 1)


def _whole(bits: int, *, signed: bool = True) -> Any:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


TYPES: dict[str, Any] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": _whole(8),
    "SMALLINT": _whole(16),
    "BIGINT": _whole(64),
    "HUGEINT": st.integers(-(10**38) + 1, 10**38 - 1),
    "UTINYINT": _whole(8, signed=False),
    "UINTEGER": _whole(32, signed=False),
    "UBIGINT": _whole(64, signed=False),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(9,2)": st.decimals(-9999999, 9999999, places=2),
    "DECIMAL(38,10)": st.decimals(-(10**20), 10**20, places=10),
    "STRING": TEXT,
    "BINARY": st.binary(max_size=6),
    "DATE": st.dates(),
    "TIME": st.times(),
    "TIMESTAMP": st.datetimes(timezones=st.just(UTC)),
    "TIMESTAMP_NTZ": st.datetimes(),
    "TIMESTAMP_S": st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
    "UUID": st.uuids(),
    "ARRAY<INT>": st.lists(st.none() | INT, max_size=3),
    "STRUCT<a: INT, b: STRING>": st.fixed_dictionaries({"a": st.none() | INT, "b": st.none() | TEXT}),
    "MAP<STRING, INT>": st.dictionaries(TEXT, st.none() | INT, max_size=3),
    "ARRAY<STRUCT<x: DATE, y: ARRAY<STRING>>>": st.lists(
        st.fixed_dictionaries({"x": st.none() | st.dates(), "y": st.none() | st.lists(TEXT, max_size=2)}), max_size=2
    ),
}


def comparable(value: Any, kind: str) -> Any:
    """A value in a form in which equal ones are equal, whoever gave them."""
    if value is None:
        return None
    if kind.startswith("MAP"):
        return tuple(sorted(dict(value).items()))
    return _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value
        case Decimal() | UUID() | bool() | date() | time() if not isinstance(value, Decimal | datetime):
            return str(value)
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
        case Decimal():
            return format(value.normalize(Context(prec=80)), "f") if value else "0"
        case int():
            return str(value)
        case list():
            return tuple(_plain(part) for part in value)
        case dict():
            return tuple(sorted((name, _plain(part)) for name, part in value.items()))
    return value


@dataclass
class Model:
    """What a table holds, as plain Python has it: `k` and some columns."""

    columns: dict[str, str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    history: dict[int, tuple[dict[str, str], list[dict[str, Any]]]] = field(default_factory=dict)

    def keep(self, version: int) -> None:
        self.history[version] = (dict(self.columns), [dict(row) for row in self.rows])


def bag(rows: list[tuple[Any, ...]], columns: dict[str, str]) -> Counter[Any]:
    return Counter(tuple(comparable(value, kind) for value, kind in zip(row, columns.values(), strict=True)) for row in rows)


STEPS = [
    "insert",
    "insert",
    "select",
    "update",
    "update all",
    "delete",
    "copy",
    "add column",
    "drop column",
    "rename column",
    "merge",
    "duck insert",
    "duck update",
    "duck delete",
    "duck merge",
    "duck flush",
]


def step(name: str, data: Any, platform: Platform, duck: Any, model: Model) -> None:  # noqa: PLR0915  a case for each thing to do
    """Do one thing to the table and to the model of it."""
    residue, number = data.draw(st.integers(0, 2)), len(model.history)
    chosen = [row for row in model.rows if row["k"] % 3 == residue]
    other = [column for column in model.columns if column != "k"]
    match name:
        case "insert":
            new = [
                {
                    column: (len(model.rows) + place) if column == "k" else data.draw(st.none() | TYPES[kind])
                    for column, kind in model.columns.items()
                }
                for place in range(data.draw(st.integers(1, 4)))
            ]
            places = ", ".join(f"({', '.join('?' * len(model.columns))})" for _ in new)
            platform.execute(f"INSERT INTO t VALUES {places}", [value for row in new for value in row.values()])
            model.rows += new
        case "select":
            platform.execute("INSERT INTO t SELECT * FROM t WHERE k % 3 = ?", [residue])
            model.rows += [dict(row) for row in chosen]
        case "update" | "update all":
            rows = chosen if name == "update" else model.rows
            where = f" WHERE k % 3 = {residue}" if name == "update" else ""
            assert platform.execute(f"UPDATE t SET k = k + 3{where}").row_count == len(rows)
            for row in rows:
                row["k"] += 3
        case "delete":
            assert platform.execute("DELETE FROM t WHERE k % 3 = :r", {"r": residue}).row_count == len(chosen)
            model.rows = [row for row in model.rows if row not in chosen]
        case "copy":
            path = Path(tempfile.mkdtemp()) / "some.parquet"
            pq.write_table(pa.table({"k": pa.array([number, number + 1], pa.int32())}), path)
            platform.execute("COPY t FROM :path (FORMAT parquet)", {"path": str(path)})
            model.rows += [_sparse(model, number), _sparse(model, number + 1)]
            shutil.rmtree(path.parent)
        case "add column":
            kind = data.draw(st.sampled_from(sorted(TYPES)))
            platform.execute(f"ALTER TABLE t ADD COLUMN added{number} {kind}")
            model.columns[f"added{number}"] = kind
            for row in model.rows:
                row[f"added{number}"] = None
        case "drop column" if other:
            platform.execute(f"ALTER TABLE t DROP COLUMN {other[0]}")
            for row in [model.columns, *model.rows]:
                del row[other[0]]
        case "rename column" if other:
            platform.execute(f"ALTER TABLE t RENAME COLUMN {other[-1]} TO renamed{number}")
            kind = model.columns.pop(other[-1])
            model.columns[f"renamed{number}"] = kind
            for row in model.rows:
                row[f"renamed{number}"] = row.pop(other[-1])
        case "merge":
            platform.lake.merge("t")
        case "duck insert":
            duck.execute(f"INSERT INTO t (k) VALUES ({number}), ({number + 1})")
            model.rows += [_sparse(model, number), _sparse(model, number + 1)]
        case "duck update":
            duck.execute(f"UPDATE t SET k = k + 3 WHERE k % 3 = {residue}")
            for row in chosen:
                row["k"] += 3
        case "duck delete":
            duck.execute(f"DELETE FROM t WHERE k % 3 = {residue}")
            model.rows = [row for row in model.rows if row not in chosen]
        case "duck merge":
            duck.execute("CALL ducklake_merge_adjacent_files('lake')")
        case "duck flush":
            duck.execute("CALL ducklake_flush_inlined_data('lake')")


def _sparse(model: Model, key: int) -> dict[str, Any]:
    return {column: key if column == "k" else None for column in model.columns}


def agree(platform: Platform, duck: Any, model: Model, version: int) -> None:
    """The platform, DuckDB and the model have the same rows and columns at a snapshot."""
    columns, rows = model.history[version]
    wanted = bag([tuple(row[column] for column in columns) for row in rows], columns)
    result = platform.execute(f"SELECT * FROM t AT (VERSION => {version})")
    assert result.columns == list(columns)
    assert bag(list(result), columns) == wanted
    assert bag(duck.rows(f"SELECT * FROM t AT (VERSION => {version})"), columns) == wanted
    assert platform.execute(f"SELECT count(*) FROM t AT (VERSION => {version})").arrow()[0][0].as_py() == len(rows)


def run_sequence(data: Any, duck: Any, steps: int) -> None:
    folder = tempfile.mkdtemp()
    url = f"platform+local://{folder}/lake"
    kinds = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    model = Model(columns={"k": "INT"} | {f"c{place}": kind for place, kind in enumerate(kinds)})
    with Platform.create(url) as platform:
        platform.execute(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in model.columns.items())})")
        reader = duck(url)
        model.keep(platform.lake.snapshot().id)
        for name in ["insert", *data.draw(st.lists(st.sampled_from(STEPS), min_size=steps, max_size=steps))]:
            step(name, data, platform, reader, model)
            newest = platform.lake.snapshot().id
            model.keep(newest)
            agree(platform, reader, model, newest)
        agree(platform, reader, model, data.draw(st.sampled_from(sorted(model.history))))
        reader.close()
    shutil.rmtree(folder)


QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.spark
@settings(max_examples=3, suppress_health_check=QUIET, deadline=None)
@given(data=st.data())
def test_a_few_steps_in_any_order(data, duck, spark_server):
    run_sequence(data, duck, steps=4)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
@settings(max_examples=6, suppress_health_check=QUIET, deadline=None)
@given(data=st.data())
def test_many_steps_in_any_order(data, duck, spark_server):
    run_sequence(data, duck, steps=10)
