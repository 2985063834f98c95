"""`AddressFunction`: the address of a row by the values of some columns, which says where in a table it lies.

An address is a number of 63 bits. Its highest bits are the bucket: so many bits of the hash of each column, in the order of the columns.
So rows with one value of a column are in few of the buckets. The bits below are those of the columns' combined hash, which only order rows
within a bucket. Without bits of single columns all of an address is the combined hash. Equal keys have one address. Different keys may
share one, so that whoever looks for a key compares the values, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.values.hashes import combine_hashes, combine_values, hash_column, hash_value, spark_combined, spark_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import DataType

    Integers = NDArray[np.int64]

ADDRESS_BITS = 63
_MASK = (1 << 64) - 1
_MOST_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressFunction:
    """The columns of a key, and the number of bits that the bucket has of the hash of each; without `bits` it has none.

    >>> by_pair = AddressFunction(columns=("region", "uid"), bits=(2, 3))
    >>> by_pair.of_values(["EU", 7]) >> 61 == by_pair.of_values(["EU", 8]) >> 61  # both are in the buckets of their region
    True
    """

    columns: tuple[str, ...]
    bits: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidValue("an address of no columns", hint="name at least one")
        if (self.bits and len(self.bits) != len(self.columns)) or min(self.bits, default=0) < 0 or sum(self.bits) > _MOST_BITS:
            raise InvalidValue(
                f"{self.bits} are no bits of {len(self.columns)} columns",
                hint=f"give a number of bits for each column, at most {_MOST_BITS} together",
            )

    def of_values(self, values: Sequence[object]) -> int:
        """The address of one row, given the values of the columns."""
        hashes = [hash_value(value) for value in values]
        return self._bucket_of(hashes) << ADDRESS_BITS - sum(self.bits) | (combine_values(hashes) & _MASK) >> 1 + sum(self.bits)

    def _bucket_of(self, hashes: Sequence[int]) -> int:
        bucket = 0
        for number, bits in zip(hashes, self.bits or (0,) * len(hashes), strict=True):
            bucket = bucket << bits | (number & _MASK) >> 64 - bits
        return bucket

    def of_rows(self, rows: pa.Table | pa.RecordBatch) -> Integers:
        """The addresses of rows."""
        hashes = [hash_column(rows.column(name)) for name in self.columns]
        found: NDArray[np.uint64] = combine_hashes(hashes).view(np.uint64) >> np.uint64(1 + sum(self.bits))
        place = ADDRESS_BITS
        for number, bits in zip(hashes, self.bits, strict=False):
            if bits:
                place -= bits
                found |= number.view(np.uint64) >> np.uint64(64 - bits) << np.uint64(place)
        return found.view(np.int64)

    def spark(self, kinds: Mapping[str, DataType]) -> str:
        """The address as a Spark SQL expression over columns of these types."""
        hashes = [spark_hash(name, kinds[name]) for name in self.columns]
        found = f"shiftrightunsigned({spark_combined(hashes)}, {1 + sum(self.bits)})"
        place = ADDRESS_BITS
        for number, bits in zip(hashes, self.bits, strict=False):
            if bits:
                place -= bits
                found += f" | shiftleft(shiftrightunsigned({number}, {64 - bits}), {place})"
        return found
