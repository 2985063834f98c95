"""The kind *table*: rows that stay until a statement changes them, and the histories of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.kind import DeclarableKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language import statements as s
    from platform_plugin.relations.declarations import DeclaredRelation, DefinitionOutcome


class TableKind(DeclarableKind["Table"]):
    """Tables with their own rows, with the result of a query, and histories of streams."""

    name = "table"
    plural = "TABLES"

    def declared(self, statement: s.Statement) -> DeclaredRelation | None:
        """The definition in a CREATE TABLE, with columns or a query, or in CREATE TABLE … AS HISTORY OF."""
        from platform_plugin.relations.tables.declaration import read_declared

        return read_declared(statement)

    def define(
        self,
        work: Workspace,
        statement: s.Statement,
        old: Table | None,
        *,
        since: Snapshot | None = None,
        progress: ProgressHandler | None = None,
    ) -> DefinitionOutcome | None:
        """Create the table; one that exists is computed again if a query defines it, else not changed."""
        from platform_plugin.relations.tables.define import define_table

        del since
        return define_table(work, statement, old, progress=progress)

    def differences(self, declared: s.Statement, stored: s.Statement) -> Iterator[str]:
        """Differences in columns, key and options; for a history in its stream."""
        from platform_plugin.relations.tables.declaration import table_differences

        return table_differences(declared, stored)

    def text(self, lake: Lake, relation: Table, declaration: Declaration, snapshot: Snapshot) -> str:
        """CREATE TABLE, or CREATE TABLE … AS HISTORY OF."""
        from platform_plugin.relations.tables.declaration import table_text

        return table_text(lake, relation, declaration, snapshot)

    def refuse_append(self, table: Table, declaration: Declaration) -> None:
        """Refuse for a history, which takes its rows from its stream."""
        from platform_plugin.relations.tables.history import refuse_history

        refuse_history(table, declaration)

    def find_twin(self, work: Workspace, table: Table, declaration: Declaration, snapshot: Snapshot, statement: s.Alter) -> Table | None:
        """None; an error for the columns of a history, which change only with its stream."""
        from platform_plugin.relations.tables.history import refuse_own_columns

        refuse_own_columns(work.lake, table, declaration, snapshot, statement)
        return None

    def set_options(self, commit: Commit, table: Table, declaration: Declaration, options: Sequence[s.Option]) -> None:
        """Write file options where every client of the lake reads them."""
        from platform_plugin.relations.options import file_options

        written = file_options(options)
        if written:
            commit.set_file_options(table, written)
        if others := [option for option in options if option.name not in written]:
            super().set_options(commit, table, declaration, others)

    def drop(self, work: Workspace, commit: Commit, relation: Table, snapshot: Snapshot, *, alone: bool) -> None:
        """Drop the table."""
        del work, snapshot, alone
        commit.drop_table(relation)


TABLE = TableKind()
