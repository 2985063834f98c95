"""`TableConsumer`: a named consumer of a table's changes, whose cursor moves in the commit of what was made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue, SnapshotExpired, UnknownObject
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.tables import read_snapshot, read_tables
from platform_plugin.lake.cursors.cursor import CURSOR_TABLES, find_cursor
from platform_plugin.lake.cursors.holding import holding_note, owner_of
from platform_plugin.lake.cursors.move import EndCursors, MoveCursor
from platform_plugin.state.change import read_change

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.state.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConsumer:
    """A consumer of the changes of one table. What it has not consumed stays, unless the table has `on_unconsumed = 'drop'`.

    >>> import tempfile, pyarrow as pa
    >>> from platform_plugin.lake.lake import Lake
    >>> lake = Lake.create(tempfile.mkdtemp() + "/lake")
    >>> users = pa.table({"id": [1]})
    >>> with lake.commit("load") as commit:
    ...     table = commit.create_table("users", lake.columns_of(users))
    >>> consumer = open_consumer(lake, "users", "billing")
    >>> with lake.commit("more") as commit:
    ...     commit.append(table, [lake.write(table, users)])
    >>> change = consumer.pending()
    >>> change.rows(lake).column("id").to_pylist()
    [1]
    >>> with lake.commit("bill") as commit:
    ...     consumer.advance(commit, change)
    >>> consumer.pending().is_empty
    True
    >>> lake.close()
    """

    lake: Lake
    table: Table
    name: str

    @property
    def position(self) -> int:
        """The snapshot up to which it has consumed the table."""
        with self.lake.reading() as connection:
            cursor = find_cursor(connection, owner_of(self.name), self.table.uuid)
        if cursor is None:
            raise UnknownObject(
                f'consumer "{self.name}" of table "{self.table.name}" does not exist', hint="it was removed; open it again to begin anew"
            )
        return cursor.position

    def pending(self) -> Change:
        """What it has not consumed yet, up to the newest snapshot."""
        lake, position = self.lake, self.position
        until = lake.snapshot()
        with lake.reading() as connection:
            after = read_snapshot(connection, id=position)
            if after is None:
                raise SnapshotExpired(
                    f'consumer "{self.name}" has consumed table "{self.table.name}" up to snapshot {position}, which has expired',
                    detail="what has changed since is not known any more",
                    hint="read the table whole at the newest snapshot, and call restart() with it to go on from there",
                )
            tables = read_tables(connection, until.id, uuids=[self.table.uuid])
            if not tables:
                raise UnknownObject(f'table "{self.table.name}" was dropped', hint=f'open consumer "{self.name}" of another one')
            return read_change(connection, tables[0], after=after, until=until)

    def advance(self, commit: Commit, change: Change) -> None:
        """Move the cursor behind a change in a commit; a conflict if somebody else has moved it meanwhile."""
        if change.relation.uuid != self.table.uuid:
            raise InvalidValue(f'a change of table "{change.relation.name}" is not one of "{self.table.name}"', hint="advance by pending()")
        self._move(commit, change.after.id, change.until.id)

    def restart(self, commit: Commit, snapshot: Snapshot) -> None:
        """Let it go on from a snapshot whose rows it has read whole."""
        self._move(commit, self.position, snapshot.id)

    def _move(self, commit: Commit, expected: int, position: int) -> None:
        note = holding_note(self.name)
        commit.also(
            MoveCursor(
                owner=owner_of(self.name),
                input=self.table.uuid,
                expected=expected,
                expected_note=note,
                position=position,
                note=note,
                consumer=f'consumer "{self.name}" of table "{self.table.name}"',
                is_traced=False,
            )
        )

    def remove(self) -> None:
        """Let go of what it holds; its cursor is gone."""
        with self.lake.commit(f"remove consumer {self.name} of {self.table.name}") as commit:
            commit.also(EndCursors([(owner_of(self.name), str(self.table.uuid))]))


def open_consumer(lake: Lake, name: str | tuple[str, str] | Name, consumer: str, *, since: Snapshot | None = None) -> TableConsumer:
    """The consumer of a table's changes with a name; a new one begins at the newest snapshot, or `since` an older one."""
    if not consumer or '"' in consumer or len(consumer) > 200:
        raise InvalidValue("a consumer is named by a short text without quotes", hint='name it for what it does, such as "billing"')
    lake.prepare_tables(CURSOR_TABLES)
    base = lake.snapshot()
    table = lake.table(name, base)
    with lake.reading() as connection:
        kind = read_declaration(connection, table.uuid).kind
        found = find_cursor(connection, owner_of(consumer), table.uuid)
    if kind != "table":
        raise InvalidValue(f'"{table.name}" is a {kind}, not a table', hint="continuous views, samples and sessions consume streams")
    opened = TableConsumer(lake=lake, table=table, name=consumer)
    if found is None:
        begin = since or base
        with lake.lease(begin), lake.commit(f"open consumer {consumer} of {table.name}", base=base) as commit:
            note = holding_note(consumer)
            commit.also(
                MoveCursor(
                    owner=owner_of(consumer),
                    input=table.uuid,
                    expected=None,
                    position=begin.id,
                    note=note,
                    consumer=f'consumer "{consumer}" of table "{table.name}"',
                    is_traced=False,
                )
            )
    return opened
