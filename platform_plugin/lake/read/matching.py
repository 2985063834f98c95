"""`match_rows` and `match_mask`: which rows of an Arrow table are in the description of a condition, by the order of values in SQL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.predicates.fitting import fit_domain
from platform_plugin.algebra.predicates.ranges import NOT_NULL, below
from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.predicates.conditions import Box, Condition
    from platform_plugin.algebra.predicates.ranges import Domain, Interval
    from platform_plugin.algebra.types.data_types import Field

# From so many values on a search in a set is faster than a comparison with each.
_LIST = 4


def match_rows(rows: pa.Table, fields: Sequence[Field], where: Condition) -> pa.Table:
    """The rows that are in the description of a condition; their columns have the fields' names and types."""
    if where.is_always:
        return rows
    return rows.slice(0, 0) if where.is_never else rows.filter(match_mask(rows, fields, where))


def find_rows_within(rows: pa.Table, fields: Sequence[Field], where: Condition) -> NDArray[np.int64] | None:
    """The places of these rows; None if all rows are within the condition."""
    if where.is_never:
        return np.zeros(0, dtype=np.int64)
    mask = None if where.is_always else match_mask(rows, fields, where)
    return None if mask is None else np.flatnonzero(pc.fill_null(mask, False))  # noqa: FBT003  the value of a null


def match_mask(rows: pa.Table, fields: Sequence[Field], where: Condition) -> Any:
    """For each row whether it is in the description of a condition; NULL is no."""
    if where.is_always or where.is_never:
        return pa.repeat(where.is_always, rows.num_rows)
    by_name = {field.name.lower(): field for field in fields}
    return _joined(pc.or_kleene, [_match_box(rows, by_name, box) for box in where.boxes])


def _match_box(rows: pa.Table, fields: dict[str, Field], box: Box) -> Any:
    columns = [(fields[name.lower()], domain) for name, domain in box.domains]
    return _joined(pc.and_kleene, [_match_column(rows.column(field.name), field, domain) for field, domain in columns])


def _joined(operation: Any, masks: Sequence[Any]) -> Any:
    result = masks[0]
    for mask in masks[1:]:
        result = operation(result, mask)
    return result


def _match_column(column: pa.ChunkedArray, field: Field, domain: Domain) -> Any:
    try:
        return match_domain(column, field, domain)
    except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        detail = str(error).splitlines()[0]
        raise InvalidValue(f'column "{field.name}" can\'t be compared with that value', detail=detail) from error


def match_domain(column: pa.ChunkedArray, field: Field, domain: Domain) -> Any:
    """Which values of a column are in a domain."""
    fitted = fit_domain(domain, field.type)
    masks = [column.is_null()] if domain.null else []
    if fitted.cuts == NOT_NULL.cuts:
        masks.append(column.is_valid())
    elif pa.types.is_floating(column.type):
        masks += _match_floats(column.cast(pa.float64()), fitted)
    else:
        masks += _match_values(column, fitted)
    return _joined(pc.or_kleene, masks) if masks else pc.and_(column.is_null(), column.is_valid())


def _match_floats(column: pa.ChunkedArray, domain: Domain) -> list[Any]:
    """NaN is looked for apart: to Arrow it is neither below nor above a number."""
    masks = [pc.is_nan(column)] if domain.contains(math.nan) else []
    numbers = domain & below(math.inf, closed=True)
    if numbers.values is not None and len(numbers.values) >= _LIST:
        # Arrow compares bit by bit here: the two zeros would differ.
        return [*masks, pc.is_in(column, pa.array([*numbers.values, *(-value for value in numbers.values if not value)], pa.float64()))]
    return [*masks, *(_match_interval(column, interval) for interval in numbers.intervals)]


def _match_values(column: pa.ChunkedArray, domain: Domain) -> list[Any]:
    values = domain.values
    if values is not None and len(values) >= _LIST:
        return [pc.is_in(column, pa.array(values, column.type))]
    return [_match_interval(column, interval) for interval in domain.intervals]


def _match_interval(column: pa.ChunkedArray, interval: Interval) -> Any:
    masks = []
    if interval.low is not None:
        compare = pc.greater_equal if interval.low_closed else pc.greater
        masks.append(compare(column, _scalar(interval.low, column.type)))
    if interval.high is not None:
        compare = pc.less_equal if interval.high_closed else pc.less
        masks.append(compare(column, _scalar(interval.high, column.type)))
    return _joined(pc.and_kleene, masks) if masks else column.is_valid()


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    # A time of microseconds beside a column of milliseconds is compared, not cut short.
    return pa.scalar(value) if pa.types.is_timestamp(kind) else pa.scalar(value, kind)
