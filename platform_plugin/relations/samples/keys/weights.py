"""Weights: the weight of each row of a relation for a weighted sample, and the `sample_weight` of each sampled row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive
from platform_plugin.errors import InvalidValue, UnknownObject
from platform_plugin.relations.samples.keys.keys import EVERY, keys_of_ids
from platform_plugin.relations.samples.keys.ladders import row_keys
from platform_plugin.relations.samples.keys.ranks import exact_log2, inclusion_probability, key_number, rank_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.relations.samples.definition import SampleDefinition

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

SAMPLE_WEIGHT = "sample_weight"
"""The column that a weighted sample adds: one over the probability with which the row was drawn."""
_MICROSECONDS = 1e6
# More than the steps of keys and numbers are apart for a time of two thousand million half-lives.
_SLACK = 1e-5


def weight_field() -> Field:
    """The column that a weighted sample adds."""
    return Field(name=SAMPLE_WEIGHT, type=Primitive("float64"))


def is_sample_weight_type(kind: DataType) -> bool:
    """Whether values of a type can be weights."""
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name.startswith(("int", "uint", "float")))


def is_decay_time_type(kind: DataType) -> bool:
    """Whether values of a type can be the times of rows."""
    return isinstance(kind, Primitive) and kind.name.startswith("timestamp")


def log_weights(definition: SampleDefinition, rows: pa.Table) -> Floats:
    """The binary logarithm of each row's weight; minus infinity for a row that is never drawn, whose weight or time is NULL or zero.

    >>> from platform_plugin.relations.samples.definition import SampleDefinition
    >>> definition = SampleDefinition(relation="", source="table", size=1, seed=1, weight="w")
    >>> log_weights(definition, pa.table({"w": [8, None, 0]})).tolist()
    [3.0, -inf, -inf]
    """
    weights, half_lives = _measured(definition, rows)
    there = weights > 0
    return np.where(there, exact_log2(np.where(there, weights, 1.0)) + half_lives, -np.inf)


def _measured(definition: SampleDefinition, rows: pa.Table) -> tuple[Floats, Floats]:
    """Each row's weight, zero for one that is never drawn, and its time in half-lives."""
    weights, half_lives = np.ones(rows.num_rows), np.zeros(rows.num_rows)
    gone = [name for name in (definition.weight, definition.time) if name is not None and name not in rows.schema.names]
    if gone:
        raise UnknownObject(f'column "{gone[0]}", by which a sample is weighted, is gone', hint="rename it back, or make the sample anew")
    if definition.weight is not None:
        weights = _floats(rows.column(definition.weight))
        wrong = np.flatnonzero((weights < 0) | ~np.isfinite(weights))
        if len(wrong):
            raise InvalidValue(
                f'column "{definition.weight}" holds {weights[wrong[0]]:g}, which is no weight',
                hint="weights are above zero, or zero or NULL for rows that are never drawn; leave other rows out with WHERE",
            )
    if definition.time is not None and definition.half_life is not None:
        times = rows.column(definition.time)
        since = pc.cast(pc.cast(times, pa.timestamp("us", times.type.tz), safe=False), pa.int64())
        half_lives = pc.fill_null(since, 0).to_numpy().astype(np.float64) / (definition.half_life * _MICROSECONDS)
        weights = np.where(np.asarray(pc.is_valid(times).to_numpy(), dtype=bool), weights, 0.0)
    return weights, half_lives


def _floats(column: pa.ChunkedArray) -> Floats:
    if pa.types.is_floating(column.type):
        # NULL becomes NaN in numpy, which a weight may not be.
        column = pc.fill_null(column, 0.0)
    return np.asarray(pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0.0).to_numpy(), dtype=np.float64)


def low_weighted_keys(definition: SampleDefinition, seed: int, ids: Integers, rows: pa.Table, bound: int) -> tuple[int, Integers, Integers]:
    """The number of rows that can be drawn, and those with keys at most `bound`: their places, and their keys."""
    weights, half_lives = _measured(definition, rows)
    keys, there = keys_of_ids(seed, ids), weights > 0
    count = int(np.count_nonzero(there))
    if bound < EVERY:
        # No rank is below that of a row of this weight whose exponential is v, which is less than -ln(1 - v): few need a logarithm.
        # A weight of zero times what overflows is no number, and no such row is there.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            there &= keys <= weights * np.exp2(half_lives + key_number(bound) + 63.0) * (1 + _SLACK)
    places = np.flatnonzero(there)
    found = rank_keys(keys[places], exact_log2(weights[places]) + half_lives[places])
    low = found <= bound
    return count, places[low], found[low]


def keys_of_sampled(definition: SampleDefinition, rows: pa.Table, row_ids: Integers) -> Integers:
    """The keys of rows in a sample of a stream, or offered to it: each of them can be drawn."""
    keys = row_keys(definition).of(row_ids)
    return rank_keys(keys, log_weights(definition, rows)) if definition.is_weighted else keys


def with_weights(definition: SampleDefinition, rows: pa.Table, keys: Integers) -> pa.Table:
    """Rows with their `sample_weight`; it is NULL for the rows beyond the sample, whose keys are the threshold for the others.

    Given the lowest key that is not in the sample, the probability of each drawn row is known (rank conditioning), and its weight is one
    over it: sums of any column with these weights are right on average.
    """
    size = definition.size
    if len(keys) <= size:
        counts: NDArray[np.float64] = np.ones(len(keys))
        beyond = np.zeros(len(keys), dtype=bool)
    else:
        threshold = int(np.partition(keys, size)[size])
        beyond = keys >= threshold
        counts = np.ones(len(keys))
        counts[~beyond] = 1.0 / inclusion_probability(log_weights(definition, rows)[~beyond], threshold)
    column = pa.array(counts, mask=beyond)
    place = rows.column_names.index(SAMPLE_WEIGHT)
    return rows.set_column(place, pa.field(SAMPLE_WEIGHT, pa.float64()), column)


def drawn_rows(rows: pa.Table) -> pa.Table:
    """The rows of a weighted sample, without the one beyond it that tells how likely they were."""
    return rows.filter(rows.column(SAMPLE_WEIGHT).is_valid())
