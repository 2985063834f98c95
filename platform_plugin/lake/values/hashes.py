"""`hash_value`, `hash_column` and `spark_hash`: the hash of a value, the same in Python, over Arrow columns, and as a Spark SQL expression.

Values that compare equal have one hash, whatever types they have: 1 as INT, BIGINT, DECIMAL(9,2) and DOUBLE; 0.0 and -0.0; all NaNs; a date
and the timestamp of its midnight in UTC. So a value is brought to one form, which is then hashed as Spark's `xxhash64` hashes it:

* whole numbers that fit BIGINT, of whatever numeric type, and truth values: as BIGINT
* other DOUBLEs and FLOATs: as DOUBLE, with one NaN
* other DECIMALs: as text without zeros at the end
* dates, timestamps: as microseconds since 1970, and times of day as nanoseconds since midnight
* text and bytes: their bytes, UUIDs: their text, NULL: 42
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal as Number
from math import isnan
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive, quote_identifier
from platform_plugin.errors import UnsupportedType
from platform_plugin.lake.values.types import MAPPINGS
from platform_plugin.lake.values.xxhash import SPARK_SEED, hash_bytes, hash_long, hash_longs, hash_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Words = NDArray[np.uint64]

_LONG_END = 1 << 63
_DAY_MICROSECONDS = 86_400_000_000
_LAST_DAY = (_LONG_END - 1) // _DAY_MICROSECONDS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NAN = struct.unpack("<Q", struct.pack("<d", float("nan")))[0]
_LONG_DIGITS = 18
_SPARK_WHOLE = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "boolean"}
_SPARK_WIDE = {"int128", "uint64", "uint128"}
_SPARK_AS_IT_IS = {"varchar", "json", "uuid", "blob", "timestamp", "timestamptz", "timestamp_s", "timestamp_ms"}


def is_hashable(kind: DataType) -> bool:
    """Whether values of a type have a hash: all that are not nested and that Arrow has a type for."""
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and MAPPINGS[kind.name].arrow is not None)


def hash_value(value: object) -> int:
    """The hash of a Python value, as a signed number of 64 bits.

    >>> hash_value(1) == hash_value(1.0) == hash_value(Number("1.00")), hash_value(0.0) == hash_value(-0.0), hash_value(None)
    (True, True, 42)
    """
    found = _hash_value(value)
    return found - (1 << 64) if found >> 63 else found


def _hash_value(value: object) -> int:
    match value:
        case None:
            return SPARK_SEED
        case int():  # bool as well
            return hash_long(value) if _is_long(value) else hash_bytes(str(value).encode())
        case float():
            whole = int(value) if value.is_integer() else None
            if whole is not None and _is_long(whole):
                return hash_long(whole)
            return hash_long(_NAN if isnan(value) else struct.unpack("<Q", struct.pack("<d", value))[0])
        case Number():
            text = format(value, "f")
            text = text.rstrip("0").rstrip(".") if "." in text else text
            return _hash_value(int(text)) if "." not in text else hash_bytes(text.encode())
        case str():
            return hash_bytes(value.encode())
        case bytes():
            return hash_bytes(value)
        case UUID():
            return hash_bytes(str(value).encode())
        case datetime():
            return hash_long(((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND)
        case date():
            return hash_long((value.toordinal() - _EPOCH.toordinal()) * _DAY_MICROSECONDS)
        case time():
            return hash_long((((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond) * 1000)
    raise _unsupported(type(value).__name__)


def _is_long(value: int) -> bool:
    return -_LONG_END <= value < _LONG_END


def hash_column(values: pa.Array | pa.ChunkedArray) -> Integers:
    """The hashes of a column's values."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    found = [_hash_array(chunk) for chunk in chunks]
    return (found[0] if len(found) == 1 else np.concatenate([np.empty(0, dtype=np.uint64), *found])).view(np.int64)


def _hash_array(values: pa.Array) -> Words:
    hashes = _hash_valid(values)
    if values.null_count:
        hashes[~np.asarray(pc.is_valid(values))] = SPARK_SEED
    return hashes


def _hash_valid(values: pa.Array) -> Words:
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        if kind == pa.uuid():
            return _hash_array(pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string()))
        raise _unsupported(str(kind))
    if kind == pa.uint64():
        return _hash_valid(values.cast(pa.decimal128(20, 0)))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return hash_longs(_longs(values))
    if pa.types.is_floating(kind):
        return _hash_fractions(values)
    if pa.types.is_decimal(kind):
        return _hash_decimals(values.cast(pa.decimal128(kind.precision, kind.scale)))
    if pa.types.is_date(kind):
        days = _longs(values.cast(pa.date32()).cast(pa.int32())).view(np.int64)
        return hash_longs(np.where(abs(days) > _LAST_DAY, days, days * _DAY_MICROSECONDS).view(np.uint64))
    if pa.types.is_timestamp(kind):
        return hash_longs(_scaled(values, kind.unit, per_second=1_000_000))
    if pa.types.is_time(kind):
        return hash_longs(_scaled(values, kind.unit, per_second=1_000_000_000))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hash_texts(values)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _hash_texts(values.cast(pa.binary()))
    raise _unsupported(str(kind))


def _longs(values: pa.Array) -> Words:
    """Whole numbers as words of 64 bits, zero for NULL."""
    whole = values.cast(pa.int64())
    return np.ascontiguousarray((pc.fill_null(whole, 0) if whole.null_count else whole).to_numpy(zero_copy_only=False)).view(np.uint64)


_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _scaled(values: pa.Array, unit: str, *, per_second: int) -> Words:
    ticks = _longs(values.view(pa.int64()) if values.type.bit_width == 64 else values.view(pa.int32())).view(np.int64)
    have = _PER_SECOND[unit]
    return (ticks * (per_second // have) if have <= per_second else ticks // (have // per_second)).view(np.uint64)


def _hash_fractions(values: pa.Array) -> Words:
    wide = values.cast(pa.float64())
    numbers = np.array((pc.fill_null(wide, 0.0) if wide.null_count else wide).to_numpy(zero_copy_only=False), dtype=np.float64)
    whole = (numbers >= -float(_LONG_END)) & (numbers < float(_LONG_END))
    whole[whole] = np.trunc(numbers[whole]) == numbers[whole]
    words = numbers.view(np.uint64).copy()
    words[np.isnan(numbers)] = _NAN
    words[whole] = numbers[whole].astype(np.int64).view(np.uint64)
    return hash_longs(words)


def _hash_decimals(values: pa.Array) -> Words:
    kind = values.type
    # Without their point: as whole numbers of as many digits.
    digits = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), values.buffers(), offset=values.offset)
    if kind.precision <= _LONG_DIGITS:
        unscaled = _longs(digits).view(np.int64)
        whole, rest = np.divmod(unscaled, 10**kind.scale)
        hashes = hash_longs(whole.view(np.uint64))
        others = np.flatnonzero(rest)
    else:
        hashes, others = np.empty(len(values), dtype=np.uint64), np.arange(len(values))
    if len(others):
        hashes[others] = _hash_digits(digits.take(pa.array(others)), kind.scale)
    return hashes


def _hash_digits(digits: pa.Array, scale: int) -> Words:
    """The hashes of decimals, given without their point."""
    filled = pc.fill_null(digits, Number(0))
    text = pc.abs(filled).cast(pa.string())
    if scale > 0:
        text = pc.utf8_lpad(text, width=scale + 1, padding="0")
        parts = [pc.utf8_slice_codeunits(text, 0, -scale), pc.utf8_rtrim(pc.utf8_slice_codeunits(text, -scale), "0")]
        is_whole = pc.equal(parts[1], "")
        text = pc.if_else(is_whole, parts[0], pc.binary_join_element_wise(*parts, "."))
    elif scale < 0:
        text = pc.if_else(pc.equal(text, "0"), text, pc.binary_join_element_wise(text, "0" * -scale, ""))
    text = pc.if_else(pc.less(filled, Number(0)), pc.binary_join_element_wise("-", text, ""), text)
    hashes = _hash_texts(text)
    longs = _whole_texts(text)
    rows = np.flatnonzero(np.asarray(pc.is_valid(longs)))
    hashes[rows] = hash_longs(_longs(longs.take(pa.array(rows))))
    return hashes


def _whole_texts(text: pa.Array) -> pa.Array:
    """The numbers that texts are where they are whole and fit 64 bits; NULL elsewhere."""
    # Longer ones would be an error to read; of those of 19 digits it depends on which they are.
    size = pc.utf8_length(pc.utf8_ltrim(text, "-"))
    is_whole = pc.invert(pc.match_substring(text, "."))
    short = pc.if_else(pc.and_(is_whole, pc.less_equal(size, _LONG_DIGITS)), text, pa.scalar(None, pa.string())).cast(pa.int64())
    edge = np.flatnonzero(np.asarray(pc.and_(is_whole, pc.equal(size, _LONG_DIGITS + 1))))
    if not len(edge):
        return short
    found = short.to_pylist()
    for row in edge.tolist():
        number = int(text[row].as_py())
        found[row] = number if _is_long(number) else None
    return pa.array(found, pa.int64())


def _hash_texts(values: pa.Array) -> Words:
    if not len(values):
        return np.empty(0, dtype=np.uint64)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return hash_texts(content[ends[0] : ends[-1]], ends[:-1] - ends[0], np.diff(ends))


def combine_hashes(hashes: Sequence[Integers]) -> Integers:
    """The combined hash of the columns of a key, from the hashes of each; of one column it is that column's."""
    found = hashes[0].view(np.uint64)
    if len(hashes) > 1:
        found = hash_longs(found)
        for more in hashes[1:]:
            found = hash_longs(more.view(np.uint64), found)
    return found.view(np.int64)


def combine_values(hashes: Sequence[int]) -> int:
    """The same for one row."""
    if len(hashes) == 1:
        return hashes[0]
    found = SPARK_SEED
    for number in hashes:
        found = hash_long(number, found)
    return found - (1 << 64) if found >> 63 else found


def spark_combined(hashes: Sequence[str]) -> str:
    """The same as a Spark SQL expression."""
    return hashes[0] if len(hashes) == 1 else f"xxhash64({', '.join(hashes)})"


def spark_hash(column: str, kind: DataType) -> str:
    """The hash of a column as a Spark SQL expression.

    >>> spark_hash("uid", Primitive("int32"))
    'xxhash64(CAST(`uid` AS BIGINT))'
    """
    name = quote_identifier(column)
    if isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _SPARK_WIDE):
        scale = kind.scale if isinstance(kind, Decimal) else 0
        # A comparison with another decimal could round; as text, Spark writes small ones with an exponent.
        whole = f"{name} % CAST(1 AS DECIMAL(1,0)) = 0"
        return _case(
            (f"{whole} AND try_cast({name} AS BIGINT) IS NOT NULL", f"try_cast({name} AS BIGINT)"),
            (whole, f"CAST(CAST({name} AS DECIMAL(38,0)) AS STRING)"),
            otherwise=f"rtrim('0', replace(format_number({name}, {scale}), ',', ''))",
        )
    word = kind.name if isinstance(kind, Primitive) else ""
    if word == "boolean":
        return f"xxhash64(CAST(CAST({name} AS INT) AS BIGINT))"
    if word in _SPARK_WHOLE:
        return f"xxhash64(CAST({name} AS BIGINT))"
    if word in ("float32", "float64"):
        wide = f"CAST({name} AS DOUBLE)"
        inside = f"{wide} >= -9223372036854775808D AND {wide} < 9223372036854775808D AND rint({wide}) = {wide}"
        return _case((inside, f"try_cast({wide} AS BIGINT)"), otherwise=wide)
    if word == "date":
        return (
            f"xxhash64(coalesce(try_multiply(CAST(unix_date({name}) AS BIGINT), {_DAY_MICROSECONDS}L), CAST(unix_date({name}) AS BIGINT)))"
        )
    if word in _SPARK_AS_IT_IS or word == "time":
        return f"xxhash64({name})"
    raise _unsupported(str(kind))


def _case(*branches: tuple[str, str], otherwise: str) -> str:
    """The hash of the first value whose condition holds."""
    return f"CASE {' '.join(f'WHEN {condition} THEN xxhash64({value})' for condition, value in branches)} ELSE xxhash64({otherwise}) END"


def _unsupported(kind: str) -> UnsupportedType:
    return UnsupportedType(f"values of type {kind} have no hash", hint="use columns of plain types as keys")
