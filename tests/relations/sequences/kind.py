"""The kind *sequence*, which shows what a kind has to say: it exists in tests only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.language.text.writing import name_text
from platform_plugin.relations.declarations import DeclaredRelation, DefinitionOutcome
from platform_plugin.relations.kind import DeclarableKind, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.statements.statement import Statement
    from platform_plugin.relations.lookups import SmallRelation
    from platform_plugin.relations.reading import ReadContext, ReadRequest, RelationRows


class SequenceKind(Kind["Table"]):
    """Numbers, each given once."""

    name = "sequence"
    plural = "SEQUENCES"
    reflected_as = "sequence"
    is_alterable = False

    def read(self, reading: ReadContext, relation: Table, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
        """One row with the number that comes next, whatever the snapshot."""
        from platform_plugin.language.query.blocks import Input

        from platform_plugin.engine.spark.frames.scan import frame_of
        from platform_plugin.relations.reading import RelationRows
        from tests.relations.sequences.record import read_rows

        del snapshot, need
        rows = read_rows(reading.work.lake, relation.uuid)
        known = Input(columns=frozenset({"next_value"}), size_bytes=rows.nbytes, fields=relation.fields)
        return RelationRows(frame_of(reading.work.session, relation.fields, rows), known)

    def find_small(self, work: Workspace, relation: Table, snapshot: Snapshot) -> SmallRelation | None:
        """The same row, without Spark."""
        from platform_plugin.relations.lookups import SmallRelation
        from tests.relations.sequences.record import read_rows

        del snapshot
        return SmallRelation(relation, read_rows(work.lake, relation.uuid))

    def facts(self, work: Workspace, relation: Table, declaration: Declaration, snapshot: Snapshot, *, internal: bool) -> Mapping[str, Any]:
        """Where it began, and what comes next."""
        from tests.relations.sequences.record import read_next

        del snapshot, internal
        return {**declaration.options, "next value": read_next(work.lake, relation.uuid)}

    def text(self, lake: Lake, relation: Table, declaration: Declaration, snapshot: Snapshot) -> str:
        """CREATE SEQUENCE."""
        from platform_plugin.relations.target import statement_name

        del lake, snapshot
        return f"CREATE SEQUENCE {name_text(statement_name(relation))} START WITH {declaration.options['start']}"

    def refuse_append(self, table: Table, declaration: Declaration) -> None:
        """Its number changes by NEXT VALUE FOR alone."""
        self.refuse_change(table, declaration)

    def refuse_change(self, table: Table, declaration: Declaration) -> None:
        """Its number changes by NEXT VALUE FOR alone."""
        from platform_plugin.errors import InvalidValue

        del declaration
        raise InvalidValue(f'"{table.name}" is a sequence', hint=f"write NEXT VALUE FOR {table.name}")

    def drop(self, work: Workspace, commit: Commit, relation: Table, snapshot: Snapshot, *, alone: bool) -> None:
        """End it, and forget its number."""
        from tests.relations.sequences.record import SEQUENCE

        del work, snapshot, alone
        commit.drop_table(relation)
        commit.forget(SEQUENCE, relation_uuid=str(relation.uuid))


class DeclarableSequenceKind(SequenceKind, DeclarableKind["Table"]):
    """The same, for files of a Dagster project: each declares a sequence, which is an asset."""

    def declared(self, statement: Statement) -> DeclaredRelation | None:
        """CREATE SEQUENCE."""
        from tests.relations.sequences.statements import CreateSequence

        return DeclaredRelation(name=statement.name) if isinstance(statement, CreateSequence) else None

    def define(
        self,
        work: Workspace,
        statement: Statement,
        old: Table | None,
        *,
        since: Snapshot | None = None,
        progress: ProgressHandler | None = None,
    ) -> DefinitionOutcome | None:
        """A sequence is created once."""
        from tests.relations.sequences.define import run_create_sequence

        del since, progress
        if old is not None:
            return None
        run_create_sequence(work, statement)
        return DefinitionOutcome("created")


SEQUENCE = DeclarableSequenceKind()
