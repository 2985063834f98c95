"""`Store`: a table of the lake to which rows are added by key, and whose rows of one group are merged when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.plan.nodes import scans
from platform_plugin.algebra.plan.render import render
from platform_plugin.algebra.types.data_types import Field, Primitive, quote_identifier
from platform_plugin.engine.kernel_run import compute, is_grouped
from platform_plugin.lake.values.addresses import ADDRESS_BITS, AddressFunction
from platform_plugin.lake.values.hashes import is_hashable
from platform_plugin.state.stored_file import DELTA, FilePlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.state.compaction import Compaction

    Integers = NDArray[np.int64]

ADDRESS = "_address"
ADDRESS_FIELD = Field(name=ADDRESS, type=Primitive("int64"))
"""The first column of a store whose rows are touched by key: the address of the row's key, by which each file is sorted."""
# From so many groups on, those that an addition does not touch are set apart, if it has few against them.
_MANY_GROUPS, _FEW = 50_000, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A table with the keys by which its rows are found, and the query that merges the rows of a group to one.

    The merge is associative and commutative, and may be done to any of the rows at any time; without one all rows stay. Rows are sorted by
    `order` within a key. A merged row in which all columns of `zero` are 0 stands for nothing, and is dropped. If the table has a column
    `ADDRESS`, files are sorted by it, so that rows of some keys are found without reading the others; otherwise rows are written as they
    come.
    """

    table: Table
    keys: tuple[str, ...]
    merge: Query | None
    order: tuple[str, ...] = ()
    bits: tuple[int, ...] = ()
    zero: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of its rows."""
        return tuple(field for field in self.table.fields if field.name != ADDRESS)

    @property
    def is_addressed(self) -> bool:
        """Whether its files have addresses and are sorted by them."""
        return self.table.field(ADDRESS) is not None

    @property
    def address(self) -> AddressFunction | None:
        """The addresses of its keys; None where it has no keys, or some that have no hash."""
        kinds = [field.type for name in self.keys if (field := self.table.field(name)) is not None]
        return AddressFunction(columns=self.keys, bits=self.bits) if kinds and all(map(is_hashable, kinds)) else None

    def add(self, lake: DataFolder, rows: pa.Table) -> DataFile:
        """Write new rows as a file; a commit that appends it to the table adds them to the store."""
        return self._write(lake, self.arrange(rows) if self.is_addressed else rows, DELTA)

    def write_compacted(self, lake: DataFolder, rows: pa.Table, compaction: Compaction, *, most_rows: int | None = None) -> list[DataFile]:
        """Write merged rows, or with `most_rows` a part of so many at most, as the files that a compaction makes of others."""
        if self.is_addressed:
            rows = self.arrange(rows)
        parts = self._divide(rows, compaction.place.prefix, compaction.depth) if rows.num_rows else []
        return [self._write(lake, part, compaction.place_of(prefix, part.num_rows, most_rows or rows.num_rows)) for prefix, part in parts]

    def _write(self, lake: DataFolder, rows: pa.Table, place: FilePlace) -> DataFile:
        return lake.write(self.table, rows, suffix=place.suffix)

    def arrange(self, rows: pa.Table) -> pa.Table:
        """Rows with their addresses, sorted by these and within a key by the order of the store."""
        addresses = self.addresses_of(rows)
        whole = rows.select([field.name for field in self.fields]).add_column(0, ADDRESS, pa.array(addresses))
        if self.order:
            return whole.take(pc.sort_indices(whole, sort_keys=[(name, "ascending") for name in (ADDRESS, *self.order)]))
        if len(addresses) and (addresses[1:] < addresses[:-1]).any():
            return whole.take(pa.array(np.argsort(addresses, kind="stable")))
        return whole

    def addresses_of(self, rows: pa.Table) -> Integers:
        """The addresses of rows by their keys."""
        function = self.address
        if function is None:
            msg = "a store without keys that have a hash has no addresses"
            raise ValueError(msg)
        return function.of_rows(rows)

    def _divide(self, rows: pa.Table, prefix: str, depth: int) -> Iterator[tuple[str, pa.Table]]:
        """Rows by so many of the first bits of their addresses, which begin with `prefix`."""
        if depth <= len(prefix):
            yield prefix, rows
            return
        addresses = rows.column(ADDRESS).to_numpy() if self.is_addressed else self.addresses_of(rows)
        # Few bits are sorted by counting; rows stay as they come within a part.
        parts = (addresses >> ADDRESS_BITS - depth).astype(np.uint8)
        if not self.is_addressed:
            order = np.argsort(parts, kind="stable")
            rows, parts = rows.take(pa.array(order)), parts[order]
        bounds = np.searchsorted(parts, np.arange((1 << depth) + 1))
        for number, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            if begin < end:
                yield f"{number:0{depth}b}", rows.slice(begin, end - begin)

    def merge_rows(self, rows: Sequence[pa.Table]) -> pa.Table:
        """One row for each group; `RefusedByEngine` if that is left to Spark."""
        whole = pa.concat_tables([part.select([field.name for field in self.fields]) for part in rows])
        if self.merge is None:
            return whole
        source = next(".".join(scan.relation) for scan in scans(self.merge))
        return self._drop_zero(compute(self.merge, {source: whole}, self.fields))

    def merge_into(self, rows: pa.Table, added: Sequence[pa.Table]) -> pa.Table:
        """One row for each group, from merged rows and new ones; groups without new rows stay as they are."""
        few = sum(part.num_rows for part in added)
        key = self.keys[0] if len(self.keys) == 1 else None
        if key is None or rows.num_rows < _MANY_GROUPS or few * _FEW > rows.num_rows or not is_grouped(rows.column(key).type):
            return self.merge_rows([rows, *added])
        kind = rows.column(key).type
        new = pa.chunked_array([chunk for part in added for chunk in part.column(key).chunks], type=kind)  # no chunk, if no row is new
        touched = pc.is_in(rows.column(key), value_set=new)
        return pa.concat_tables([rows.filter(pc.invert(touched)), self.merge_rows([rows.filter(touched), *added])])

    def merge_sql(self, rows: str) -> str:
        """The Spark SQL that merges the rows of a relation to one for each group."""
        if self.merge is None:
            return f"SELECT * FROM {rows}"
        merged = render(self.merge, {tuple(scan.relation): rows for scan in scans(self.merge)})
        if not self.zero:
            return merged
        kept = " OR ".join(f"coalesce({quote_identifier(name)}, 0) <> 0" for name in self.zero)
        return f"SELECT * FROM ({merged}) WHERE {kept}"

    def _drop_zero(self, rows: pa.Table) -> pa.Table:
        if not self.zero or not rows.num_rows:
            return rows
        keep: Any = None
        for name in self.zero:
            own = pc.fill_null(pc.not_equal(rows.column(name), 0), False)  # noqa: FBT003
            keep = own if keep is None else pc.or_(keep, own)
        return rows if pc.all(keep).as_py() else rows.filter(keep)
