"""Hashes: Python, Arrow and Spark compute the same, and values that are equal have one hash."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from math import inf, isnan, nan
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Decimal, Primitive, list_of
from platform_plugin.errors import UnsupportedType
from platform_plugin.lake.values.hashes import (
    combine_hashes,
    combine_values,
    hash_column,
    hash_value,
    is_hashable,
    spark_combined,
    spark_hash,
)
from platform_plugin.lake.values.types import to_arrow, to_spark

VECTORS = json.loads((Path(__file__).parent / "hash_vectors.json").read_text())


def decimal(text):
    precision, _, scale = text.removeprefix("decimal(").removesuffix(")").partition(",")
    return Decimal(precision=int(precision), scale=int(scale))


def type_of(word):
    return decimal(word) if word.startswith("decimal") else Primitive(word)


PARSERS = {
    "boolean": lambda text: text == "true",
    "float32": float,
    "float64": float,
    "int128": Number,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
    "time": time.fromisoformat,
    "uuid": UUID,
    "varchar": str,
}


def value_of(word, text):
    parse = Number if word.startswith("decimal") else PARSERS.get(word, int)
    return None if text is None else parse(text)


def numbers(precision, scale):
    top = 10**precision - 1
    return st.integers(-top, top).map(lambda number: Number(f"{number}E-{scale}"))


VALUES = {
    "boolean": st.booleans(),
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "uint64": st.integers(0, (1 << 64) - 1),
    "int128": numbers(38, 0),
    "float32": st.floats(width=32) | st.integers(-1000, 1000).map(float),
    "float64": st.floats() | st.integers(-(1 << 63), (1 << 63)).map(float) | st.just(9223372036854775808.0),
    "decimal(9,2)": numbers(9, 2),
    "decimal(18,0)": numbers(18, 0),
    "decimal(18,6)": numbers(18, 6),
    "decimal(19,0)": numbers(19, 0) | st.sampled_from([Number((1 << 63) - 1), Number(1 << 63), Number(-(1 << 63)), Number(-(1 << 63) - 1)]),
    "decimal(38,10)": numbers(38, 10) | numbers(12, 4),
    "decimal(38,38)": numbers(38, 38),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
    "time": st.times(),
    "varchar": st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    "blob": st.binary(max_size=80),
    "uuid": st.uuids(),
}


@pytest.mark.parametrize("word", VALUES)
@given(data=st.data())
def test_a_column_has_the_hashes_of_its_values(word, data):
    values = data.draw(st.lists(st.none() | VALUES[word], max_size=20))
    column = pa.array(values, to_arrow(type_of(word)))
    wanted = [hash_value(value) for value in values]
    assert hash_column(column).tolist() == wanted
    assert hash_column(column.slice(3)).tolist() == wanted[3:], "a slice begins in the middle of its buffers"
    assert hash_column(pa.chunked_array([column[:2], column[2:]], column.type)).tolist() == wanted


@given(st.integers(-(10**20), 10**20) | st.integers(-200, 200), st.integers(0, 3))
def test_a_number_has_one_hash_whatever_its_type(number, scale):
    hashes = {hash_value(number), hash_value(Number(number)), hash_value(Number(f"{number}.{'0' * scale}"))}
    if abs(number) < 1 << 53:
        hashes.add(hash_value(float(number)))
    for kind in (pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.decimal128(20, 0), pa.decimal128(38, 5)):
        try:
            column = pa.array([Number(number) if pa.types.is_decimal(kind) else number], kind)
        except (pa.ArrowInvalid, OverflowError, ValueError):
            continue
        hashes.add(int(hash_column(column)[0]))
    assert len(hashes) == 1


@given(numbers(12, 6), st.integers(6, 12))
def test_a_decimal_has_one_hash_whatever_its_scale(number, scale):
    wide = pa.array([number], pa.decimal128(12, 6)).cast(pa.decimal128(30, scale))
    assert int(hash_column(wide)[0]) == hash_value(number) == hash_value(number * 1)


def test_what_is_equal_has_one_hash():
    odd_nan = np.array([0x7FF8000000000123, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    assert {hash_value(nan), *hash_column(pa.array(odd_nan)).tolist()} == {hash_value(float("nan"))}
    assert hash_value(0.0) == hash_value(-0.0) == hash_value(0) == int(hash_column(pa.array([-0.0], pa.float32()))[0])
    day, noon = date(2024, 2, 29), datetime.fromisoformat("2024-02-29")
    assert hash_value(day) == hash_value(noon) == hash_value(noon.replace(tzinfo=UTC))
    seconds = pa.array([noon], pa.timestamp("s"))
    assert {int(hash_column(seconds.cast(pa.timestamp(unit)))[0]) for unit in ("s", "ms", "us", "ns")} == {hash_value(noon)}
    assert hash_value(None) == 42 == int(hash_column(pa.array([None], pa.string()))[0])
    assert hash_value(time(1, 2, 3)) == int(hash_column(pa.array([time(1, 2, 3)], pa.time32("s")))[0])
    texts = ["", "x", None, "x" * 40]
    assert hash_column(pa.array(texts, pa.large_string())).tolist() == hash_column(pa.array(texts)).tolist()


@given(st.lists(st.text(max_size=70), unique=True, min_size=2), st.lists(st.integers(), unique=True, min_size=2))
def test_different_values_have_different_hashes(texts, integers):
    for values in (texts, integers):
        assert len({hash_value(value) for value in values}) == len(values)


@given(st.lists(st.tuples(st.integers(-9, 9), st.text(max_size=3), st.booleans()), min_size=1))
def test_columns_are_combined_as_rows_are(rows):
    columns = [hash_column(pa.array(list(column))) for column in zip(*rows, strict=True)]
    for width in (1, 2, 3):
        assert combine_hashes(columns[:width]).tolist() == [combine_values([hash_value(value) for value in row[:width]]) for row in rows]


def test_nested_values_have_none():
    assert not is_hashable(list_of(Primitive("int32")))
    assert is_hashable(Primitive("varchar"))
    with pytest.raises(UnsupportedType):
        hash_value([1])
    with pytest.raises(UnsupportedType):
        hash_column(pa.array([[1]]))
    with pytest.raises(UnsupportedType):
        spark_hash("a", list_of(Primitive("int32")))


@pytest.mark.parametrize(("word", "text", "wanted"), VECTORS)
def test_hashes_are_those_of_the_vectors(word, text, wanted):
    value = value_of(word, text)
    assert hash_value(value) == wanted
    assert int(hash_column(pa.array([value], to_arrow(type_of(word))))[0]) == wanted


@pytest.mark.spark
def test_spark_computes_the_vectors(spark_session):
    asked = []
    for number, (word, text, _) in enumerate(VECTORS):
        kind = type_of(word)
        literal = "NULL" if text is None else "'" + text.replace("'", "\\'") + "'"
        asked.append(f"SELECT {number} AS n, {spark_hash('c', kind)} AS h FROM (SELECT CAST({literal} AS {to_spark(kind)}) AS c)")
    with spark_session.use_settings({"spark.sql.session.timeZone": "UTC", "spark.sql.timeType.enabled": "true"}):
        found = spark_session.arrow(" UNION ALL ".join(asked)).read_all().sort_by("n")
    assert [[*vector[:2], hashed] for vector, hashed in zip(VECTORS, found.column("h").to_pylist(), strict=True)] == VECTORS


@pytest.mark.spark
def test_spark_computes_the_same_hashes(spark_session):
    random = np.random.default_rng(5)
    count = 400
    whole = random.integers(-(1 << 62), 1 << 62, count)
    columns = {
        "int32": (whole >> 40).astype(np.int32),
        "int64": whole,
        "float32": np.where(whole % 2, random.normal(0, 1e6, count), whole % 1000).astype(np.float32),
        "float64": np.where(whole % 2, random.normal(0, 1e300, count), whole % 1000),
        "decimal(9,2)": [Number(int(number % 10**5)).scaleb(-2) for number in whole],
        "decimal(38,10)": [Number(int(number)).scaleb(int(number % 3) * -5) * (1 if number % 5 else 10**9) for number in whole],
        "varchar": ["é" * int(number % 41) + str(number)[: int(number % 9)] for number in whole],
        "blob": [random.bytes(int(number % 70)) for number in whole],
        "date": [date.fromordinal(int(number % 3_000_000) + 1) for number in whole],
        "timestamp": (whole % (10**15)).astype("datetime64[us]"),
        "boolean": whole % 2 == 0,
    }
    table = pa.table(
        {
            f"c{place}": pa.array(values, to_arrow(type_of(word)), mask=whole % 17 == 0)
            for place, (word, values) in enumerate(columns.items())
        }
    )
    kinds = {f"c{place}": type_of(word) for place, word in enumerate(columns)}
    frame = spark_session.spark.createDataFrame(table)
    hashes = [spark_hash(name, kind) for name, kind in kinds.items()]
    with spark_session.use_settings({"spark.sql.session.timeZone": "UTC"}):
        asked = frame.selectExpr(*(f"{text} AS h{place}" for place, text in enumerate(hashes)), f"{spark_combined(hashes)} AS whole")
        found = spark_session.arrow(asked).read_all()
    mine = [hash_column(table.column(name)) for name in table.column_names]
    for place, (word, hashed) in enumerate(zip(columns, mine, strict=True)):
        assert found.column(f"h{place}").to_pylist() == hashed.tolist(), word
    assert found.column("whole").to_pylist() == combine_hashes(mine).tolist()


def test_ends_of_doubles():
    values = [inf, -inf, 9223372036854775807.0, -9223372036854775808.0, 1e19, 5e-324]
    assert hash_column(pa.array(values)).tolist() == [hash_value(value) for value in values]
    assert not any(isnan(value) for value in values)
