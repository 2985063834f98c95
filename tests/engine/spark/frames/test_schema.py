import pytest
from pyspark.sql import types as t

from platform_plugin.algebra.types.data_types import SQL_WORDS, Decimal, Primitive
from platform_plugin.engine.spark.frames.schema import from_spark_type, has_spark_type, to_spark_type
from platform_plugin.errors import UnsupportedType
from platform_plugin.lake.values.types import MAPPINGS


@pytest.mark.parametrize("name", SQL_WORDS)
def test_the_table_of_types_is_the_only_one(name):
    known = MAPPINGS[name].spark
    assert has_spark_type(Primitive(name)) is (known is not None)
    if known is None:
        with pytest.raises(UnsupportedType, match='column "c"'):
            to_spark_type(Primitive(name), column="c")
    elif name != "uuid":
        assert to_spark_type(Primitive(name)).simpleString().upper() == known


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (t.ShortType(), "int16"),
        (t.IntegerType(), "int32"),
        (t.LongType(), "int64"),
        (t.TimestampNTZType(), "timestamp"),
        (t.TimestampType(), "timestamptz"),
        (t.BinaryType(), "blob"),
        (t.StringType(), "varchar"),
        (t.NullType(), "int32"),
        (t.TimeType(6), "time"),
    ],
)
def test_what_a_query_gives_has_one_type_of_ours(kind, name):
    assert from_spark_type(kind, column="c") == Primitive(name)
    assert from_spark_type(t.DecimalType(9, 2), column="c") == Decimal(precision=9, scale=2)
