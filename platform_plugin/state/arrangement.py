"""Arrangements: stores with the rows of a relation, each with its weight, which are found by some of their columns.

All columns are the key of a group, and the weights of equal rows are added up. A row that was inserted and deleted has the weight 0 and is
dropped. So the signed rows of a change are added as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Aggregate, Item, Output, Scalar, Scan
from platform_plugin.algebra.plan.traversal import column_reference
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.state.store import ADDRESS, ADDRESS_FIELD, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.lake.catalogue.tables import Table

WEIGHT = "_weight"
_WEIGHT_FIELD = Field(name=WEIGHT, type=Primitive("int64"))
_ROWS = "rows"


def arrangement_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns of the table of an arrangement, for rows with these columns."""
    return (ADDRESS_FIELD, *fields, _WEIGHT_FIELD)


def arrangement(table: Table, keys: Sequence[str], *, order: Sequence[str] = (), bits: Sequence[int] = ()) -> Store:
    """The store of the rows in a table that has the columns of `arrangement_fields`, by `keys`."""
    columns = [Output(name=field.name, type=field.type) for field in table.fields if field.name != ADDRESS]
    groups = tuple(
        Item(value=column_reference(_ROWS, column.name), name=column.name, type=column.type) for column in columns if column.name != WEIGHT
    )
    weight = exp.Anonymous(this="sum", expressions=[column_reference(_ROWS, WEIGHT).node])
    merge = Aggregate(
        source=Scan(relation=(_ROWS,), kind="state", alias=_ROWS, fields=tuple(columns)),
        keys=groups,
        calls=(Item(value=Scalar(weight), name=WEIGHT, type=_WEIGHT_FIELD.type),),
    )
    return Store(table=table, keys=tuple(keys), merge=merge, order=tuple(order), bits=tuple(bits), zero=(WEIGHT,))
