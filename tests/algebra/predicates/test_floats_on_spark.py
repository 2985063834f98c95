"""FLOAT and DOUBLE beside decimals, whole numbers and doubles: what a description says of each value is what Spark says, in one query."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from platform_plugin.algebra.predicates.read import read_condition
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.lake.read.matching import match_mask
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.leaves import read_constant
from platform_plugin.language.text.values import Literal

if TYPE_CHECKING:
    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.engine.spark.session.session import Session

COLUMNS = {"f": (Primitive("float32"), pa.float32()), "d": (Primitive("float64"), pa.float64())}
# Numbers that no float is, numbers that one is, the edges of what a float tells apart, and digits beyond a double's.
CONSTANTS = [
    *("0.1", "0.2", "0.3", "1.5", "-0.1", "0.0", "0.1000000014901161193847656250", "0.10000000149011612", "0.30000001192092896"),
    *(
        "16777216",
        "-16777216",
        "16777217.0",
        "16777216.5",
        "0.1000000000000000055511151231257827",
        "99999999999999999999999999999999999999",
    ),
    *("0.1D", "1.5D", "double('NaN')", "double('Infinity')", "0.1F", "-0.0D"),
]
LISTS = ["0.1, 0.3", "1, 1.5", "0.1, 0.1D", "0.1F, 0.2", "16777216, 0.5, NULL"]


def single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def values() -> list[float | None]:
    found: dict[str, float | None] = {}
    for value in (0.1, 0.2, 0.3, 1.5, 0.5, 1.0, 16777216.0, -0.1, 1e38):
        for near in (value, single(value)):
            for one in (near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)):
                found[repr(one)] = one
        for direction in (math.inf, -math.inf):
            around = float(np.nextafter(np.float32(value), np.float32(direction)))
            found[repr(around)] = around
    return [*found.values(), 0.0, -0.0, math.nan, math.inf, -math.inf, None]


def conditions(column: str) -> list[str]:
    found = [f"{column} {operator} {constant}" for constant in CONSTANTS for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>")]
    found += [f"{constant} < {column}" for constant in CONSTANTS]
    found += [f"{column} {word} ({listed})" for listed in LISTS for word in ("IN", "NOT IN")]
    found += [f"{column} BETWEEN 0.1 AND 0.3", f"{column} NOT BETWEEN 0.1 AND 1.5D", f"NOT ({column} > 0.3 OR {column} <= 0.1)"]
    return found


def value_of(constant: Any) -> Any:
    assert isinstance(constant, Literal)
    return constant.value


@pytest.mark.spark
def test_a_description_of_floats_is_what_spark_compares(spark_session: Session) -> None:
    types = {name: kind for name, (kind, _) in COLUMNS.items()}
    rows = pa.table(
        {name: pa.array([None if value is None else float(value) for value in values()], kind) for name, (_, kind) in COLUMNS.items()}
    )
    fields = [Field(name=name, type=kind) for name, kind in types.items()]
    texts = [text for column in COLUMNS for text in conditions(column)]
    spark_session.spark.createDataFrame(rows).createOrReplaceTempView("w")
    listed = ", ".join(f"coalesce({text}, false) AS c{place}" for place, text in enumerate(texts))
    theirs = spark_session.arrow(f"SELECT f, d, {listed} FROM w").read_all()
    exact = 0
    for place, text in enumerate(texts):
        condition = read_description(text, types)
        ours = [bool(one) for one in match_mask(rows, fields, condition).to_pylist()]
        for value, inside, passes in zip(rows.to_pylist(), ours, theirs.column(f"c{place}").to_pylist(), strict=True):
            assert inside >= passes, (text, value, str(condition))
            assert not condition.is_exact or inside == passes, (text, value, str(condition))
        exact += condition.is_exact
    assert exact > len(texts) * 0.7


def read_description(text: str, types: dict[str, Primitive]) -> Condition:
    node = analyse_query(f"SELECT 1 FROM w WHERE {text}").tree.args["where"].this
    return read_condition(
        node, lambda inner: inner.name if isinstance(inner, exp.Column) else None, read_constant, types.get, value_of
    ).condition
