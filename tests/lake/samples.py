"""Values of every DuckLake type: as Arrow holds them and as DuckDB's SQL writes them, two forms that nobody computes from each other."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

import pyarrow as pa

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive, list_of, map_of, struct_of

NASTY = [
    "",
    " ",
    "NULL",
    "null",
    "it's",
    "''",
    '"double"',
    "a, b",
    "{curly: 1}",
    "[1, 2]",
    "back\\slash",
    "\\'",
    "\\",
    "tab\tnew\nline\r",
    "emoji 🦆 e\u0301 \U0010ffff",
    "key=value",
    "a:b",
    "\u00e9",
    "  padded  ",
    "%s_%",
    "true",
    "1",
    "x" * 5000,
]


@dataclass(frozen=True, slots=True)
class Sample:
    """One type with its DuckDB name and pairs of (value for Arrow, DuckDB literal)."""

    type: DataType
    duckdb: str
    values: tuple[tuple[Any, str], ...]

    def array(self, kind: pa.DataType) -> pa.Array:
        """The values as Arrow; points in time may be given as numbers, since Python's own end at the year 9999."""
        plain = [value for value, _ in self.values]
        if pa.types.is_temporal(kind) and any(isinstance(value, int) for value in plain):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            return pa.array(plain, width).cast(kind)
        return adapt_uuids(plain, kind)


def adapt_uuids(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as Arrow, which makes UUIDs only from their storage."""
    if isinstance(kind, pa.UuidType):
        return pa.array(values, kind.storage_type).cast(kind)
    if pa.types.is_struct(kind) and values and any(isinstance(part.type, pa.UuidType) for part in kind):
        parts = [adapt_uuids([value[part.name] for value in values], part.type) for part in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    return pa.array(values, kind)


def text(value: str) -> str:
    """A DuckDB string literal."""
    return "'" + value.replace("'", "''") + "'"


def _numbers(*values: int) -> tuple[tuple[Any, str], ...]:
    return ((None, "NULL"), *((value, str(value)) for value in values))


def _of(word: str, duckdb: str, *values: tuple[Any, str]) -> Sample:
    return Sample(Primitive(word), duckdb, ((None, "NULL"), *values))


_DAY_US = 86_400_000_000
_YEAR_1 = -62_135_596_800
_YEAR_9999 = 253_402_300_799

_FLOATS = (
    (0.0, "0.0"),
    (-0.0, "'-0.0'"),
    (1.5, "1.5"),
    (-2.25, "-2.25"),
    (float("nan"), "'nan'"),
    (float("inf"), "'inf'"),
    (float("-inf"), "'-inf'"),
)

SAMPLES: dict[str, Sample] = {
    "boolean": _of("boolean", "BOOLEAN", (True, "true"), (False, "false")),
    **{
        f"int{bits}": Sample(Primitive(f"int{bits}"), name, _numbers(-(2 ** (bits - 1)), -1, 0, 2 ** (bits - 1) - 1))
        for bits, name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INT"), (64, "BIGINT"))
    },
    **{
        f"uint{bits}": Sample(Primitive(f"uint{bits}"), name, _numbers(0, 1, 2**bits - 1))
        for bits, name in ((8, "UTINYINT"), (16, "USMALLINT"), (32, "UINTEGER"), (64, "UBIGINT"))
    },
    "float32": _of("float32", "FLOAT", *_FLOATS, (3.4028234663852886e38, "3.4028234663852886e38"), (1.401298464324817e-45, "1e-45")),
    "float64": _of(
        "float64", "DOUBLE", *_FLOATS, (1.7976931348623157e308, "1.7976931348623157e308"), (0.1, "0.1::DOUBLE"), (5e-324, "5e-324")
    ),
    **{
        f"decimal({p},{s})": Sample(
            Decimal(precision=p, scale=s),
            f"DECIMAL({p},{s})",
            (
                (None, "NULL"),
                *(
                    (Number(v), f"'{v}'::DECIMAL({p},{s})")
                    for v in ("0", "-" + "9" * (p - s) + "." + "9" * s, "9" * (p - s) + "." + "9" * s)
                ),
            ),
        )
        for p, s in ((4, 1), (9, 2), (18, 3), (38, 10))
    },
    "decimal(38,0)": Sample(
        Decimal(precision=38, scale=0), "DECIMAL(38,0)", ((None, "NULL"), (Number("9" * 38), f"'{'9' * 38}'::DECIMAL(38,0)"))
    ),
    "date": _of(
        "date",
        "DATE",
        (0, "'1970-01-01'"),
        (_YEAR_1 // 86400, "'0001-01-01'"),
        (_YEAR_9999 // 86400, "'9999-12-31'"),
        (-719163, "'0001-12-31 (BC)'::DATE"),
        (5_000_000, "'1970-01-01'::DATE + 5000000"),
        (-2_000_000, "'1970-01-01'::DATE - 2000000"),
    ),
    "time": _of(
        "time", "TIME", (dt.time(0), "'00:00:00'"), (dt.time(23, 59, 59, 999999), "'23:59:59.999999'"), (dt.time(1, 2, 3), "'01:02:03'")
    ),
    "time_ns": _of("time_ns", "TIME_NS", (0, "'00:00:00'"), (86_399_999_999_999, "'23:59:59.999999999'")),
    "timestamp": _of(
        "timestamp",
        "TIMESTAMP",
        (0, "'1970-01-01 00:00:00'"),
        (1, "'1970-01-01 00:00:00.000001'"),
        (1_600_000_000_120_000, "'2020-09-13 12:26:40.12'"),
        (_YEAR_1 * 1_000_000, "'0001-01-01 00:00:00'"),
        (_YEAR_9999 * 1_000_000 + 999_999, "'9999-12-31 23:59:59.999999'"),
        (5_000_000 * _DAY_US, "make_timestamp(432000000000000000)"),
        (-719529 * _DAY_US, "make_timestamp(-62167305600000000)"),
        (2**63 - 1, "'infinity'"),
        (1 - 2**63, "'-infinity'"),
    ),
    "timestamptz": _of(
        "timestamptz",
        "TIMESTAMPTZ",
        (0, "'1970-01-01 00:00:00+00'"),
        (1_600_000_000_123_456, "'2020-09-13 14:26:40.123456+02'"),
        (_YEAR_1 * 1_000_000, "'0001-01-01 00:00:00+00'"),
        (_YEAR_9999 * 1_000_000 + 999_999, "'9999-12-31 23:59:59.999999+00'"),
        (5_000_000 * _DAY_US, "'15659-07-15 00:00:00+00'"),
        (2**63 - 1, "'infinity'"),
        (1 - 2**63, "'-infinity'"),
    ),
    "timestamp_s": _of(
        "timestamp_s", "TIMESTAMP_S", (0, "'1970-01-01 00:00:00'"), (_YEAR_9999, "'9999-12-31 23:59:59'"), (-1, "'1969-12-31 23:59:59'")
    ),
    "timestamp_ms": _of(
        "timestamp_ms",
        "TIMESTAMP_MS",
        (0, "'1970-01-01 00:00:00'"),
        (1_600_000_000_001, "'2020-09-13 12:26:40.001'"),
        (-1, "'1969-12-31 23:59:59.999'"),
    ),
    "timestamp_ns": _of(
        "timestamp_ns",
        "TIMESTAMP_NS",
        (0, "'1970-01-01 00:00:00'"),
        (1_600_000_000_123_456_789, "'2020-09-13 12:26:40.123456789'"),
        (1_600_000_000_123_456_788, "'2020-09-13 12:26:40.123456788'"),
        (9_223_372_036_854_775_806, "'2262-04-11 23:47:16.854775806'"),
        (-1, "'1969-12-31 23:59:59.999999999'"),
    ),
    "varchar": _of("varchar", "VARCHAR", *((value, text(value)) for value in NASTY)),
    "json": _of("json", "JSON", ('{"a": [1, null, "x\'y"]}', text('{"a": [1, null, "x\'y"]}')), ("null", "'null'"), ("[]", "'[]'")),
    "blob": _of(
        "blob",
        "BLOB",
        (b"", "''::BLOB"),
        (b"\x00", "'\\x00'::BLOB"),
        (b"\\x00'\"\xff", "'\\x5Cx00''\"\\xFF'::BLOB"),
        (b"a, b", "'a, b'::BLOB"),
    ),
    "uuid": _of(
        "uuid",
        "UUID",
        *(
            (UUID(value).bytes, f"'{value}'::UUID")
            for value in (
                "00000000-0000-0000-0000-000000000000",
                "ffffffff-ffff-ffff-ffff-ffffffffffff",
                "7f000000-0000-4000-8000-000000000001",
            )
        ),
    ),
    "list": Sample(
        list_of(Primitive("varchar")),
        "VARCHAR[]",
        (
            (None, "NULL"),
            ([], "[]"),
            ([None], "[NULL]"),
            (["NULL", None], "['NULL', NULL]"),
            *(([value, "end"], f"[{text(value)}, 'end']") for value in NASTY),
        ),
    ),
    "struct": Sample(
        struct_of(**{"a": Primitive("int32"), "odd name, 'x'": Primitive("varchar"), "d": Decimal(precision=9, scale=2)}),
        "STRUCT(a INT, \"odd name, 'x'\" VARCHAR, d DECIMAL(9,2))",
        (
            (None, "NULL"),
            *(
                ({"a": 1, "odd name, 'x'": value, "d": Number("-1.50")}, f"{{'a': 1, 'odd name, ''x''': {text(value)}, 'd': -1.50}}")
                for value in NASTY
            ),
            ({"a": None, "odd name, 'x'": None, "d": None}, "{'a': NULL, 'odd name, ''x''': NULL, 'd': NULL}"),
        ),
    ),
    "map": Sample(
        map_of(Primitive("varchar"), Primitive("varchar")),
        "MAP(VARCHAR, VARCHAR)",
        (
            (None, "NULL"),
            ([], "MAP {}"),
            *(([(value, value), ("k", None)], f"MAP {{{text(value)}: {text(value)}, 'k': NULL}}") for value in NASTY),
        ),
    ),
    "deep": Sample(
        list_of(
            struct_of(m=map_of(Primitive("int32"), list_of(struct_of(s=Primitive("varchar"), b=Primitive("blob")))), f=Primitive("float64"))
        ),
        "STRUCT(m MAP(INT, STRUCT(s VARCHAR, b BLOB)[]), f DOUBLE)[]",
        (
            (None, "NULL"),
            ([], "[]"),
            ([None, {"m": None, "f": None}], "[NULL, {'m': NULL, 'f': NULL}]"),
            (
                [{"m": [(1, [{"s": "it's", "b": b"\x00a"}, None]), (2, [])], "f": float("inf")}],
                "[{'m': MAP {1: [{'s': 'it''s', 'b': '\\x00a'::BLOB}, NULL], 2: []}, 'f': 'inf'}]",
            ),
        ),
    ),
    "temporal parts": Sample(
        struct_of(
            d=Primitive("date"),
            t=Primitive("time"),
            ts=Primitive("timestamp"),
            tz=Primitive("timestamptz"),
            u=Primitive("uuid"),
            y=Primitive("boolean"),
            n=Primitive("uint64"),
        ),
        "STRUCT(d DATE, t TIME, ts TIMESTAMP, tz TIMESTAMPTZ, u UUID, y BOOLEAN, n UBIGINT)",
        (
            (
                {
                    "d": dt.date(2020, 1, 2),
                    "t": dt.time(3, 4, 5, 6),
                    "ts": dt.datetime(2020, 1, 2, 3, 4, 5, 600),  # noqa: DTZ001
                    "tz": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
                    "u": UUID("7f000000-0000-4000-8000-000000000001").bytes,
                    "y": True,
                    "n": 2**64 - 1,
                },
                (
                    "{'d': '2020-01-02', 't': '03:04:05.000006', 'ts': '2020-01-02 03:04:05.0006', 'tz': '2020-01-02 03:04:05+00',"
                    " 'u': '7f000000-0000-4000-8000-000000000001', 'y': true, 'n': 18446744073709551615}"
                ),
            ),
        ),
    ),
}
