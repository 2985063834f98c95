"""`DataFolder`: the files of a lake without its catalogue, which is all that a task on another machine has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import StorageError
from platform_plugin.lake.files import files
from platform_plugin.lake.files.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile

NameMapping = tuple[dict[tuple[int | None, str], tuple[int, int]], dict[int, str]]
"""For files of other programs: (parent, column name) to (mapping column, field id), and names of columns kept in paths by field id."""


class DataFolder:
    """A folder whose files are read and written by their paths. No commit and no name is known here.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(DataFolder("/srv/lake/data/"))).storage.root
    '/srv/lake/data/'
    """

    def __init__(self, data_path: str, *, outside: Sequence[str] = ()) -> None:
        self.storage = Storage(data_path, outside=outside)

    def write(self, table: Table, rows: pa.Table | pa.RecordBatchReader, *, row_ids: pa.Array | None = None, suffix: str = "") -> DataFile:
        """Write rows as a file of a table, whose name ends in `suffix`; a commit makes it visible."""
        return files.write_data_file(self.storage, table, rows, row_ids=row_ids, path=files.new_path(table, suffix=suffix))

    def write_files(self, table: Table, rows: pa.Table | pa.RecordBatchReader, *, row_ids: pa.Array | None = None) -> list[DataFile]:
        """Write rows as files of about the table's target size, or as one where it has none."""
        from platform_plugin.lake.files import file_division

        return file_division.write_data_files(self.storage, table, rows, row_ids=row_ids)

    def explain_missing(self, path: str, snapshot: Snapshot) -> PlatformError:
        """The error for a file that a reader of a snapshot misses."""
        return StorageError(
            f'file "{path}" is missing',
            detail=f"a reader of snapshot {snapshot.id} misses it",
            hint="its snapshot expired, or another program removed it",
        )

    def read_name_mapping(self, mapping_id: int) -> NameMapping:
        """The mapping of a file of another program, which stands in the catalogue."""
        raise StorageError("a file of another program can't be read without the catalogue", detail=f"it has name mapping {mapping_id}")
