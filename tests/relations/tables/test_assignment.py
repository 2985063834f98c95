"""One assignment rule: every pair of a value and a column's type ends alike, whichever way the value takes into the column."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.lake.files.files import fit_rows
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.places import Span
from platform_plugin.language.text.values import Parameter
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.rows import shape_rows
from platform_plugin.relations.tables.rows import literal_rows
from tests.lake.agreement import plain, rows_of

REFUSED = "refused"
NUMBERS = ["TINYINT", "INT", "BIGINT", "UTINYINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,10)"]
TIMES = ["DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_S", "TIMESTAMP_MS"]
TYPES = [*NUMBERS, *TIMES, "BOOLEAN", "STRING", "BINARY", "UUID", "JSON"]
NTZ = datetime.fromisoformat("2026-01-01 01:02:03")
# What Spark calls it, and the same in Python.
SOURCES = {
    "5": 5,
    "-1": -1,
    "300": 300,
    "9223372036854775807": 2**63 - 1,
    "1.5": Decimal("1.5"),
    "2.0": Decimal("2.0"),
    "1.005": Decimal("1.005"),
    "999.995": Decimal("999.995"),
    "0.0000001": Decimal("0.0000001"),
    "1e2": 100.0,
    "1.005e0": 1.005,
    "1e39": 1e39,
    "1e-5": 1e-5,
    "double('NaN')": math.nan,
    "double('-inf')": -math.inf,
    "true": True,
    "'5'": "5",
    "'NaN'": "NaN",
    "'true'": "true",
    "X'6162'": b"ab",
    "DATE'2026-01-01'": date(2026, 1, 1),
    "TIMESTAMP'2026-01-01 00:00:00'": datetime(2026, 1, 1, tzinfo=UTC),
    "TIMESTAMP'2026-01-01 01:02:03.456'": datetime(2026, 1, 1, 1, 2, 3, 456000, tzinfo=UTC),
    "TIMESTAMP'2026-01-01 01:02:03.456789'": datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC),
    "TIMESTAMP_NTZ'2026-01-01 01:02:03'": NTZ,
    "TIME'01:02:03.5'": time(1, 2, 3, 500000),
    "'2026-01-01'": "2026-01-01",
    "'2026-1-1'": "2026-1-1",
    "'2026-02-30'": "2026-02-30",
    "'2026-01-01 01:02'": "2026-01-01 01:02",
    "'2026-01-01T01:02:03.5'": "2026-01-01T01:02:03.5",
    "'2026-01-01 01:02:03.1234560'": "2026-01-01 01:02:03.1234560",
    "'2026-01-01 01:02:03.1234567'": "2026-01-01 01:02:03.1234567",
    "'2026-01-01 01:02:03+02:00'": "2026-01-01 01:02:03+02:00",
    "'2026-01-01 01:02:03 Europe/Berlin'": "2026-01-01 01:02:03 Europe/Berlin",
    "'01:02:03'": "01:02:03",
    "'01:02'": "01:02",
    "'00000000-0000-0000-0000-00000000000A'": "00000000-0000-0000-0000-00000000000A",
    "'{}'": "{}",
    "'[1,'": "[1,",
    """'{"a": 1, "a": 2}'""": '{"a": 1, "a": 2}',
    "NULL": None,
}
PAIRS = [(source, word) for source in SOURCES for word in TYPES]
NOWHERE = Span(source="?", start=0, end=1)


def field_of(word, name="c"):
    return Field(name=name, type=parse_type(word), id=1)


def ended(convert):
    try:
        return convert()
    except PlatformError:
        return REFUSED


def comparable(value):
    value = UUID(bytes=value) if isinstance(value, bytes) and len(value) == 16 else value
    return str(plain(value)) if isinstance(value, float | Decimal | UUID) else plain(value)


def as_parameter(value, field):
    return literal_rows([[Parameter(index=0, span=NOWHERE)]], [field], (value,), NOWHERE).column(0)[0].as_py()


def as_dict(value, field):
    table = Table(id=1, uuid=UUID(int=0), name=Name(schema="main", relation="t"), path="t/", fields=(field,))
    return shape_rows([{"c": value}], table).column(0)[0].as_py()


def as_arrow(value, field):
    return fit_rows(pa.table({"c": pa.array([value, None])}), [field]).column(0)[0].as_py()


@pytest.mark.parametrize("word", TYPES)
def test_parameters_dicts_and_arrow_end_alike(word):
    field = field_of(word)
    for source, value in SOURCES.items():
        first = ended(lambda value=value: as_parameter(value, field))
        assert comparable(ended(lambda value=value: as_dict(value, field))) == comparable(first), source
        if word != "JSON":  # of Arrow's texts those of appends are looked at, below
            assert comparable(ended(lambda value=value: as_arrow(value, field))) == comparable(first), source


RULE = [
    ("1.005", "DECIMAL(5,2)", Decimal("1.01")),
    ("999.995", "DECIMAL(5,2)", REFUSED),
    ("1e2", "DECIMAL(5,2)", Decimal("100.00")),
    ("1.005e0", "DECIMAL(5,2)", Decimal("1.01")),
    ("1e2", "INT", 100),
    ("1.5", "INT", REFUSED),
    ("2.0", "INT", 2),
    ("300", "TINYINT", REFUSED),
    ("'NaN'", "DOUBLE", REFUSED),
    ("'5'", "INT", REFUSED),
    ("double('NaN')", "DECIMAL(5,2)", REFUSED),
    ("1e39", "FLOAT", REFUSED),
    ("1e39", "STRING", "1.0E39"),
    ("0.0000001", "STRING", "0.0000001"),
    ("true", "STRING", "true"),
    ("true", "INT", REFUSED),
    ("X'6162'", "STRING", REFUSED),
    ("'2026-01-01 01:02:03.1234567'", "TIMESTAMP", REFUSED),
    ("'2026-01-01 01:02:03.1234567'", "TIMESTAMP_NTZ", REFUSED),
    ("'2026-01-01 01:02:03+02:00'", "TIMESTAMP", datetime(2025, 12, 31, 23, 2, 3, tzinfo=UTC)),
    ("'2026-01-01 01:02:03+02:00'", "TIMESTAMP_NTZ", REFUSED),
    ("'2026-01-01'", "DATE", date(2026, 1, 1)),
    ("TIMESTAMP'2026-01-01 00:00:00'", "DATE", date(2026, 1, 1)),
    ("TIMESTAMP'2026-01-01 01:02:03.456789'", "DATE", REFUSED),
    ("TIMESTAMP'2026-01-01 01:02:03.456789'", "TIME", REFUSED),
    ("TIMESTAMP'2026-01-01 01:02:03.456789'", "TIMESTAMP_S", REFUSED),
    ("5", "UUID", REFUSED),
    ("'[1,'", "JSON", REFUSED),
]


@pytest.mark.parametrize(("source", "word", "wanted"), RULE)
def test_the_rule(source, word, wanted):
    assert comparable(ended(lambda: as_parameter(SOURCES[source], field_of(word)))) == comparable(wanted)


def test_parts_follow_the_rule_too():
    rows = pa.table(
        {
            "l": pa.array([[1.0, None], None, []], pa.large_list(pa.float64())),
            "m": pa.array([[("a", Decimal("1.005"))], None, []], pa.map_(pa.string(), pa.decimal128(9, 3))),
            "s": pa.array([{"B": "2026-01-01"}, None, {"B": None}], pa.struct([("B", pa.string())])),
        }
    )
    fields = [field_of("ARRAY<INT>", "l"), field_of("MAP<STRING, DECIMAL(5,2)>", "m"), field_of("STRUCT<a: INT, b: DATE>", "s")]
    wanted = [
        ([1, None], (("a", Decimal("1.01")),), {"a": None, "b": date(2026, 1, 1)}),
        (None, None, None),
        ([], (), {"a": None, "b": None}),
    ]
    found = fit_rows(rows, fields)
    assert rows_of(found) == [plain(row) for row in wanted]
    assert rows_of(fit_rows(rows.slice(1), fields)) == [plain(row) for row in wanted[1:]]
    for name, word in (("l", "ARRAY<BOOLEAN>"), ("m", "MAP<STRING, DATE>"), ("s", "STRUCT<b: INT>"), ("s", "STRUCT<c: DATE>")):
        with pytest.raises(InvalidValue, match="column"):
            fit_rows(rows.select([name]), [field_of(word, name)])


def through_spark(platform, pairs):
    """What a query's columns become: one column for each pair, one job for all."""
    fields = [field_of(word, f"c{place}") for place, (_, word) in enumerate(pairs)]
    with platform.lake.commit("t") as commit:
        commit.create_table("t", fields)
    platform.execute(f"INSERT INTO t SELECT {', '.join(source for source, _ in pairs)}")
    (row,) = rows_of(platform.lake.read("t"))
    platform.execute("DROP TABLE t")
    return row


def split(pairs):
    ends = {pair: ended(lambda pair=pair: as_parameter(SOURCES[pair[0]], field_of(pair[1]))) for pair in pairs}
    return {pair: end for pair, end in ends.items() if end != REFUSED}, [pair for pair, end in ends.items() if end == REFUSED]


def assert_alike(platform, taken):
    found = through_spark(platform, list(taken))
    ends = zip(taken.items(), found, strict=True)
    assert [(pair, end, wanted) for (pair, wanted), end in ends if comparable(end) != comparable(wanted)] == []


@pytest.mark.spark
def test_a_query_s_columns_end_alike(tmp_path, spark_server):
    first = {type(value): source for source, value in reversed(SOURCES.items())}.values()
    ruled = {(source, word) for source, word, _ in RULE}
    taken, refused = split([pair for pair in PAIRS if pair in ruled or pair[0] in first])
    assert len(taken) > 60
    with Platform.create(tmp_path / "lake") as platform:
        assert_alike(platform, taken)
        for pair in [pair for pair in refused if pair in ruled][::5]:
            assert ended(lambda pair=pair: through_spark(platform, [pair])) == REFUSED, pair
        platform.execute("CREATE TABLE named (id INT, other INT)")
        for query in ("SELECT 30 AS id, 31 AS id", "SELECT 30 AS id, 31 AS ID", "VALUES (1, 2) AS v(id, id)"):
            with pytest.raises(InvalidValue, match="given twice"):
                platform.execute(f"INSERT INTO named BY NAME {query}")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("word", TYPES)
def test_every_pair_ends_alike_by_a_query_too(word, tmp_path, spark_server):
    taken, refused = split([pair for pair in PAIRS if pair[1] == word])
    with Platform.create(tmp_path / "lake") as platform:
        assert_alike(platform, taken)
        assert [pair for pair in refused if ended(lambda pair=pair: through_spark(platform, [pair])) != REFUSED] == []
