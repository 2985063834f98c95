"""Gates: functions that look at the rows of a commit before they are visible, and may refuse them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.stalls import delete_stalls
from platform_plugin.lake.read.scan import FileScan, TableScan
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.values.stall import Stall

    Gate = Callable[[Table, Sequence[DataFile]], None]
    BypassHandler = Callable[[Stall, Snapshot], None]


class GateRefusal(InvalidValue):
    """What was to be published did not pass its gate."""


class Gates:
    """The gates of a lake in this process, by relation."""

    def __init__(self) -> None:
        self._gates: dict[str, Gate] = {}
        self._ignored: set[str] = set()
        self._handler: BypassHandler | None = None

    @contextmanager
    def guarding(self, name: Name, gate: Gate) -> Iterator[None]:
        """Let a gate check what commits add to a relation inside the `with` block; if it raises, the commit is not made."""
        self._gates[str(name).lower()] = gate
        try:
            yield
        finally:
            del self._gates[str(name).lower()]

    @property
    def names(self) -> tuple[str, ...]:
        """The relations that have a gate, in lower case."""
        return tuple(self._gates)

    def find(self, name: Name) -> Gate | None:
        """The gate of a relation; the gate of a view is for the rows of its result."""
        return self._gates.get(str(name).lower())

    def check(self, table: Table, files: Sequence[DataFile]) -> bool:
        """Call the relation's gate, if it has one, with the files, and say whether it has one; the gate's error goes to the caller."""
        gate = self.find(table.name)
        if gate is not None:
            gate(table, files)
        return gate is not None

    @contextmanager
    def ignoring(self, name: Name) -> Iterator[None]:
        """Commits inside the `with` block take what another process's gate holds back of a relation, and delete the note of it."""
        self._ignored.add(str(name).lower())
        try:
            yield
        finally:
            self._ignored.discard(str(name).lower())

    @contextmanager
    def reporting(self, handler: BypassHandler) -> Iterator[None]:
        """Call a function for each noted gate that rows of a commit inside the `with` block came past, after that commit."""
        self._handler = handler
        try:
            yield
        finally:
            self._handler = None

    def is_ignored(self, name: Name) -> bool:
        """Whether commits take what another process's gate holds back of a relation."""
        return str(name).lower() in self._ignored

    @property
    def has_handler(self) -> bool:
        """Whether rows that come past noted gates are reported."""
        return self._handler is not None

    def report(self, stalls: Sequence[Stall], snapshot: Snapshot) -> None:
        """Tell that rows came past noted gates."""
        if self._handler is not None:
            for stall in stalls:
                self._handler(stall, snapshot)


@dataclass(frozen=True, slots=True)
class EndGateStalls:
    """Deletes the notes of what gates hold back, in the commit that takes it without them."""

    names: tuple[Name, ...]

    def apply(self, w: Writer) -> None:
        delete_stalls(w.connection, self.names, cause="gate")


def scan_written(table: Table, files: Sequence[DataFile], snapshot: Snapshot) -> TableScan:
    """A scan of files that no commit names yet."""
    return TableScan(
        table=table,
        snapshot=snapshot,
        files=tuple(
            FileScan(
                id=-1 - number,
                path=file.path,
                record_count=file.record_count,
                size_bytes=file.size_bytes,
                footer_bytes=file.footer_bytes,
                row_id_start=None,
                begin_snapshot=snapshot.id,
                partial_max=file.partial_max,
            )
            for number, file in enumerate(files)
        ),
    )


def read_written(lake: Lake, table: Table, files: Sequence[DataFile]) -> pa.Table:
    """The rows of files that no commit names yet."""
    from platform_plugin.lake.read.read import read_file

    snapshot = lake.snapshot()
    parts = [read_file(lake, table, file, snapshot)[0] for file in scan_written(table, files, snapshot).files]
    return pa.concat_tables(parts) if parts else pa.Table.from_batches([], schema=arrow_schema(table.fields))
