"""PEP 249's `Cursor`: runs statements and returns their rows while they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from platform_plugin.dialect.batch import plan_batch
from platform_plugin.dialect.faults import Error, InterfaceError, ProgrammingError, raise_data_errors, raise_dbapi_errors
from platform_plugin.dialect.type_codes import Description, describe_columns
from platform_plugin.language.script import parse_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from platform_plugin.dialect.connection import Connection
    from platform_plugin.relations.result import Result

Row = tuple[Any, ...]
Parameters = Mapping[str, Any] | Sequence[Any]

# Rows that are Python values at any one time, however large the engine makes its batches.
_ROWS_AT_ONCE = 2_000


class Cursor:
    """PEP 249's cursor. Rows of a large result never have to fit into memory; an unread one holds a lease until it is closed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[Description] | None = None
        self.rowcount = -1
        self.rownumber: int | None = None
        self.lastrowid = None
        self._result: Result | None = None
        self._rows: Iterator[Row] | None = None
        self._closed = False

    # Statements

    def execute(self, operation: str, parameters: Parameters | None = None) -> Self:
        """Run a statement with values for its `:names` (a dict) or `?` (a list). A text without a statement does nothing."""
        self._begin()
        with raise_data_errors(), raise_dbapi_errors(), self.connection.rules.in_force():
            if _is_empty(operation):
                return self
            self._take(self.connection.platform.execute(operation, _bindable_set(parameters)))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Self:
        """Run a statement once for each set of parameters. An INSERT … VALUES becomes one statement, hence one commit and one file."""
        self._begin()
        sets = list(seq_of_parameters)
        if not sets:
            self.rowcount = 0
            return self
        with raise_data_errors(), raise_dbapi_errors(), self.connection.rules.in_force():
            if (batch := plan_batch(operation, sets)) is not None:
                from platform_plugin.relations.tables.insert import run_insert

                self._take(run_insert(self.connection.platform.work, batch, ()))
                return self
            total = 0
            for parameters in sets:
                with self.connection.platform.execute(operation, _bindable_set(parameters)) as result:
                    if result.schema.names:
                        raise ProgrammingError("executemany can't run a statement that gives rows", hint="call execute for each")
                    total += result.row_count or 0
                self.connection.note_done()
            self.rowcount = total
        return self

    def _begin(self) -> None:
        self._check_open()
        self._release()
        self.description, self.rowcount, self.rownumber = None, -1, None

    def _take(self, result: Result) -> None:
        self.description = describe_columns(result.schema)
        if self.description is None:
            self.rowcount = -1 if result.row_count is None else result.row_count
            self.connection.note_done()
            result.close()
            return
        self._result = result
        self._rows = self._read(result)
        self.rownumber = 0

    def _read(self, result: Result) -> Iterator[Row]:
        with raise_dbapi_errors():
            for batch in result.batches():
                for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                    part = batch.slice(start, _ROWS_AT_ONCE)
                    yield from zip(*(column.to_pylist(maps_as_pydicts="strict") for column in part.columns), strict=True)

    # Rows

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        rows = self._readable()
        row = next(rows, None)
        if row is not None:
            self.rownumber = (self.rownumber or 0) + 1
        return row

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, `arraysize` of them if no number is given."""
        rows = list(islice(self._readable(), self.arraysize if size is None else size))
        self.rownumber = (self.rownumber or 0) + len(rows)
        return rows

    def fetchall(self) -> list[Row]:
        """All remaining rows."""
        rows = list(self._readable())
        self.rownumber = (self.rownumber or 0) + len(rows)
        return rows

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """The rows as Arrow's own reader; no row may have been fetched yet."""
        self._readable()
        if self._result is None or self.rownumber:
            raise InterfaceError("rows were fetched already", hint="fetch all of them as rows, or all as Arrow")
        with raise_dbapi_errors():
            return self._result.reader()

    def fetch_arrow_table(self) -> pa.Table:
        """The rows as an Arrow table; no row may have been fetched yet."""
        with raise_dbapi_errors():
            return self.fetch_record_batch().read_all()

    def _readable(self) -> Iterator[Row]:
        self._check_open()
        if self._rows is None:
            raise ProgrammingError("there are no rows to fetch", hint="execute a statement that gives rows first")
        return self._rows

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # What PEP 249 also asks for

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing: values carry their types."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing: columns of any size are fetched whole."""

    def close(self) -> None:
        """Release what the cursor reads; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._release()

    def _release(self) -> None:
        result, self._result, self._rows = self._result, None, None
        if result is not None:
            with raise_dbapi_errors():
                result.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed", hint="open another with connection.cursor()")
        self.connection.check_open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Error):
            self.close()


def _is_empty(operation: str) -> bool:
    return operation.lstrip().startswith("--") and not parse_script(operation)


def _bindable_set(parameters: Parameters | None) -> Parameters | None:
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {name: _bindable(value) for name, value in parameters.items()}
    return [_bindable(value) for value in parameters]


def _bindable(value: Any) -> Any:
    """A value that Spark can bind: it knows no UUIDs, and would read a time without a zone in this process's own zone, not in UTC."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return str(value) if isinstance(value, UUID) else value
