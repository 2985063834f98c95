"""Files of before-images: writing the rows that a commit is going to end, and reading them for the change feed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.errors import PlatformError, UnsupportedType
from platform_plugin.lake.commit.before_images import BeforeImages
from platform_plugin.lake.files.files import ROW_GROUP_ROWS, ROW_ID, ROW_ID_FIELD, SNAPSHOT_ID, SNAPSHOT_ID_FIELD, new_parquet, new_path
from platform_plugin.lake.read.evolution import adapt_rows, make_nullable
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.read import find_column, read_raw
from platform_plugin.lake.read.scan import FileScan
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan

    Integers = NDArray[np.int64]

SUFFIX = "-gone"
_THREADS = 8
# Rows that wait in memory before they become a file.
_FILE_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRows:
    """Rows with their row ids, and for each row the snapshot that added it as it is."""

    rows: pa.Table
    row_ids: Integers
    added: Integers

    def take(self, places: Any) -> ImageRows:
        """Some of the rows."""
        return ImageRows(rows=take_places(self.rows, places), row_ids=self.row_ids[places], added=self.added[places])


def take_places(rows: pa.Table, places: Integers) -> pa.Table:
    """Some rows of a table, which may have no columns."""
    return rows.take(pa.array(places)) if rows.num_columns else pa.table({"": pa.nulls(len(places))}).select([])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDates:
    """The snapshots that added rows as they are, by row id."""

    row_ids: Integers
    added: Integers

    @classmethod
    def of(cls, row_ids: Integers, added: Integers) -> ImageDates:
        """The same for row ids in any order."""
        order = np.argsort(row_ids, kind="stable")
        return cls(row_ids=row_ids[order], added=added[order])

    def find(self, row_ids: Integers) -> Integers:
        """The snapshot of each of some rows."""
        return self.added[np.searchsorted(self.row_ids, row_ids)]


class ImagesMissing(Exception):
    """A file of before-images is not there, which a client may have deleted that does not know it; its rows are in data files too."""


def join_images(parts: Sequence[ImageRows], fields: Sequence[Field]) -> ImageRows:
    """All rows of several parts with these columns."""
    # An `empty_table` can't be made where a UUID is inside of another value.
    empty = pa.Table.from_batches([], schema=arrow_schema(fields))
    return ImageRows(
        rows=pa.concat_tables([part.rows for part in parts]) if parts else empty,
        row_ids=np.concatenate([part.row_ids for part in parts]) if parts else np.zeros(0, dtype=np.int64),
        added=np.concatenate([part.added for part in parts]) if parts else np.zeros(0, dtype=np.int64),
    )


def has_before_images(table: Table) -> bool:
    """Whether the rows of a table can be written as before-images: Arrow has no form of a few types."""
    try:
        arrow_schema(table.fields)
    except UnsupportedType:
        return False
    return True


def read_images(lake: Lake, scan: TableScan, positions: Mapping[int, Integers], inlined: Integers) -> Iterator[ImageRows]:
    """The rows at positions of a scan's files, by page where they are few, and the inlined rows with these row ids, file by file."""
    fields = tuple(make_nullable(field) for field in scan.table.fields)
    files = [file for file in scan.files if len(positions.get(file.id, ()))]

    def load(file: FileScan) -> ImageRows:
        return read_at(lake, file, scan.snapshot, fields, np.sort(np.asarray(positions[file.id], dtype=np.int64)))

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        ahead: list[Any] = []
        for file in files:
            ahead.append(pool.submit(load, file))
            if len(ahead) > _THREADS:
                yield ahead.pop(0).result()
        for future in ahead:
            yield future.result()
    if len(inlined):
        with lake.reading() as connection:
            for part in scan.inlined:
                rows, row_ids, added = read_inlined(connection, part, scan.table, scan.snapshot, fields=fields)
                found = ImageRows(rows=rows, row_ids=np.array(row_ids, dtype=np.int64), added=np.array(added, dtype=np.int64))
                yield found.take(np.flatnonzero(np.isin(found.row_ids, inlined)))


def read_at(lake: Lake, file: FileScan, snapshot: Snapshot, fields: Sequence[Field], positions: Integers | None) -> ImageRows:
    """The rows at ascending positions of a file, or all rows in it whatever was deleted, with their row ids."""
    whole = file._replace(deletes=None, positions=(), until=None)
    raw, _ = read_raw(lake, whole, snapshot, fields=fields, hidden=(ROW_ID, SNAPSHOT_ID), positions=positions)
    ids, added = find_column(raw, ROW_ID), find_column(raw, SNAPSHOT_ID)
    count = file.record_count if positions is None else len(positions)
    places = np.arange(count) if positions is None else positions
    return ImageRows(
        rows=adapt_rows(raw, fields) if fields else pa.table({"": pa.nulls(count)}).select([]),
        row_ids=(file.row_id_start or 0) + places if ids is None else ids.to_numpy(),
        added=np.full(count, file.begin_snapshot, dtype=np.int64) if added is None else added.to_numpy(),
    )


def write_images(lake: DataFolder, table: Table, images: ImageRows) -> BeforeImages:
    """Write rows that a commit is going to end as a file, which `Commit.keep_before_images` names."""
    path = new_path(table, suffix=SUFFIX)
    schema = arrow_schema(tuple(make_nullable(field) for field in table.fields))
    order = np.argsort(images.row_ids, kind="stable")
    ordered = images if (np.diff(order) == 1).all() else images.take(order)
    columns = [
        *(column.cast(field.type) for column, field in zip(ordered.rows.columns, schema, strict=True)),
        pa.chunked_array([pa.array(ordered.row_ids, pa.int64())]),
        pa.chunked_array([pa.array(ordered.added, pa.int64())]),
    ]
    rows = pa.Table.from_arrays(columns, schema=pa.schema([*schema, ROW_ID_FIELD, SNAPSHOT_ID_FIELD]))
    with new_parquet(lake.storage, path, rows.schema, rows=rows, options=table.file_options) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    return BeforeImages(path=path, row_count=rows.num_rows, size_bytes=lake.storage.size(path))


def write_rows_at(lake: Lake, scan: TableScan, positions: Mapping[int, Sequence[int]], inlined: Sequence[int]) -> list[BeforeImages]:
    """Write the rows at these places as before-images, as one file or more; none where the table has a type that Arrow can't hold."""
    if not has_before_images(scan.table):
        return []
    written: list[BeforeImages] = []
    gathered: list[ImageRows] = []
    fields = tuple(make_nullable(field) for field in scan.table.fields)
    chosen = {file_id: np.asarray(found, dtype=np.int64) for file_id, found in positions.items()}
    try:
        for part in read_images(lake, scan, chosen, np.asarray(inlined, dtype=np.int64)):
            gathered.append(part)
            if sum(each.rows.nbytes for each in gathered) > _FILE_BYTES:
                written.append(write_images(lake, scan.table, join_images(gathered, fields)))
                gathered = []
        if sum(len(part.row_ids) for part in gathered):
            written.append(write_images(lake, scan.table, join_images(gathered, fields)))
    except BaseException:
        lake.discard(written)
        raise
    return written


def read_image_file(lake: Lake, images: BeforeImages, snapshot: Snapshot, fields: Sequence[Field]) -> ImageRows:
    """The rows of a file of before-images with these columns of its table; raises `ImagesMissing` if the file is not there."""
    file = FileScan(
        id=-1,
        path=images.path,
        record_count=images.row_count,
        size_bytes=images.size_bytes,
        footer_bytes=0,
        row_id_start=None,
        begin_snapshot=-1,
    )
    try:
        return read_at(lake, file, snapshot, fields, None)
    except PlatformError as error:
        if _is_missing(error):
            raise ImagesMissing from error
        raise


def _is_missing(error: BaseException | None) -> bool:
    """Whether an error comes from a file that is not there."""
    while error is not None:
        if isinstance(error, FileNotFoundError):
            return True
        error = error.__cause__
    return False
