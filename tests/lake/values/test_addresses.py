"""Addresses: Python, Arrow and Spark compute the same, a bucket tells what its bits are of, and the rest orders rows within it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Decimal, Primitive
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.values.addresses import ADDRESS_BITS, AddressFunction
from platform_plugin.lake.values.hashes import hash_value

ROWS = st.lists(st.tuples(st.integers(-50, 50) | st.none(), st.text(max_size=4) | st.none()), min_size=1, max_size=30)
BITS = st.just(()) | st.tuples(st.integers(0, 16), st.integers(0, 16))
KINDS = {"a": Primitive("int64"), "b": Primitive("varchar")}


def table(rows):
    return pa.table({"a": pa.array([a for a, _ in rows], pa.int64()), "b": pa.array([b for _, b in rows], pa.string())})


@given(ROWS, BITS)
def test_rows_have_the_addresses_of_their_values(rows, bits):
    function = AddressFunction(columns=("a", "b"), bits=bits)
    found = function.of_rows(table(rows)).tolist()
    assert found == [function.of_values(row) for row in rows]
    assert all(0 <= address < 1 << ADDRESS_BITS for address in found)
    # Whoever compares numbers with sign and without comes to the same order.
    assert len(set(zip(rows, found, strict=True))) == len(set(rows))


@given(ROWS, st.integers(0, 16), st.integers(0, 16))
def test_the_bucket_is_of_the_bits_of_each_column(rows, first, second):
    function = AddressFunction(columns=("a", "b"), bits=(first, second))
    for a, b in rows:
        bucket = function.of_values([a, b]) >> ADDRESS_BITS - first - second
        wanted = [hash_value(value) % (1 << 64) >> 64 - bits for value, bits in ((a, first), (b, second))]
        assert bucket == wanted[0] << second | wanted[1]


def test_the_combined_hash_orders_within_a_bucket():
    values = pa.table({"a": pa.array(range(20_000)), "b": pa.array(["x", "y"] * 10_000)})
    plain, by_column = (AddressFunction(columns=("a", "b"), bits=bits).of_rows(values) for bits in ((), (3, 0)))
    assert len(np.unique(by_column)) == len(values)
    assert (by_column & (1 << 60) - 1 == plain >> 3).all()
    # All buckets are filled about alike: 2 500 are expected in each, with a deviation of 47.
    assert (abs(np.bincount(by_column >> 60, minlength=8) - 2_500) < 4 * 47).all()


def test_one_column_has_its_own_hash():
    assert AddressFunction(columns=("a",)).of_values([7]) == hash_value(7) % (1 << 64) >> 1


@pytest.mark.parametrize("given_bits", [(1,), (-1, 2), (20, 20)])
def test_bits_that_fit_no_columns_are_refused(given_bits):
    with pytest.raises(InvalidValue, match="no bits of 2 columns"):
        AddressFunction(columns=("a", "b"), bits=given_bits)
    with pytest.raises(InvalidValue, match="no columns"):
        AddressFunction(columns=())


@pytest.mark.spark
def test_spark_computes_the_same_addresses(spark_session):
    rows = pa.table(
        {
            "a": pa.array([*range(50), None], pa.int64()),
            "b": pa.array([None, *map(str, range(50))]),
            "c": pa.array(np.arange(51)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
        }
    )
    kinds = {**KINDS, "c": Decimal(precision=21, scale=2)}
    frame = spark_session.spark.createDataFrame(rows)
    for columns, bits in ((("a",), ()), (("a",), (5,)), (("b", "a"), (0, 7)), (("a", "b", "c"), (8, 8, 16)), (("c", "b"), ())):
        function = AddressFunction(columns=columns, bits=bits)
        found = spark_session.arrow(frame.selectExpr(f"{function.spark(kinds)} AS address")).read_all()
        assert found.column("address").to_pylist() == function.of_rows(rows).tolist(), (columns, bits)
