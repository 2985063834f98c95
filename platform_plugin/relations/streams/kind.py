"""The kind *stream*: rows are appended, get numbers, and are evicted when the limits say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from platform_plugin.relations.kind import DeclarableKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language import statements as s
    from platform_plugin.relations.declarations import DeclaredRelation, DefinitionOutcome
    from platform_plugin.relations.follow.maintained import Maintenance


class StreamKind(DeclarableKind["Table"]):
    """Relations with retention, which writers append to or which read a source."""

    name = "stream"
    plural = "STREAMS"
    planned_as = "stream"
    has_arrivals = True
    intake = "ingest"

    def facts(self, work: Workspace, relation: Table, declaration: Declaration, snapshot: Snapshot, *, internal: bool) -> Mapping[str, Any]:
        """Its limits and feed, and the figures of its rows."""
        from platform_plugin.relations.streams.figures import stream_facts

        options = super().facts(work, relation, declaration, snapshot, internal=internal)
        return {**options, **stream_facts(work, relation, declaration, snapshot)}

    def declared(self, statement: s.Statement) -> DeclaredRelation | None:
        """The definition in a CREATE STREAM."""
        from platform_plugin.relations.streams.declaration import read_declared

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
        """Create the stream; one that exists is not changed."""
        from platform_plugin.relations.declarations import DefinitionOutcome
        from platform_plugin.relations.streams.define import run_create_stream

        del since, progress
        if old is not None:
            return None
        run_create_stream(work, cast("s.CreateStream", statement))
        return DefinitionOutcome("created")

    def differences(self, declared: s.Statement, stored: s.Statement) -> Iterator[str]:
        """Differences in columns and limits."""
        from platform_plugin.relations.streams.declaration import stream_differences

        return stream_differences(declared, stored)

    def takes_in(self, declaration: Declaration) -> bool:
        """Whether the stream has a feed."""
        from platform_plugin.relations.streams.feeds.declaration import read_declared_feed

        return read_declared_feed(declaration) is not None

    def text(self, lake: Lake, relation: Table, declaration: Declaration, snapshot: Snapshot) -> str:
        """CREATE STREAM."""
        from platform_plugin.language.statements.registry import statement_text
        from platform_plugin.relations.streams.declaration import stream_statement
        from platform_plugin.relations.target import statement_name

        del lake, snapshot
        return statement_text(stream_statement(statement_name(relation), relation, declaration))

    def reflect_options(self, declaration: Declaration) -> Mapping[str, Any]:
        """The options that make a reflected stream a stream again."""
        from platform_plugin.relations.streams.declaration import reflected_limits

        return {"stream": True, **reflected_limits(declaration)}

    def refuse_change(self, table: Table, declaration: Declaration) -> None:
        """Refuse: rows of a stream are only evicted, with their segment."""
        from platform_plugin.errors import InvalidValue

        del declaration
        raise InvalidValue(
            f'rows of stream "{table.name}" can\'t be changed', hint="streams only take new rows; keep what changes in a history table"
        )

    def find_twin(self, work: Workspace, table: Table, declaration: Declaration, snapshot: Snapshot, statement: s.Alter) -> Table | None:
        """Its history, which has the same columns."""
        from platform_plugin.lake.ring.history import read_history

        del declaration, statement
        with work.lake.reading() as connection:
            return read_history(connection, table, snapshot.id)

    def set_options(self, commit: Commit, table: Table, declaration: Declaration, options: Sequence[s.Option]) -> None:
        """New limits evict rows in the same commit; options of the feed change the stored feed."""
        from platform_plugin.relations.options import declare_options
        from platform_plugin.relations.streams.declaration import altered_options

        declare_options(commit, table, declaration, altered_options(declaration, options, table.fields))
        commit.retain(table)

    def maintenance(self) -> Sequence[Maintenance[Any]]:
        """Streams that follow tables consume what has come to these."""
        from platform_plugin.relations.streams.feed_maintenance import FEEDS

        return (FEEDS,)

    def drop(self, work: Workspace, commit: Commit, relation: Table, snapshot: Snapshot, *, alone: bool) -> None:
        """Drop it with the records and cursors of its feed."""
        from platform_plugin.relations.streams.feeds.sources import ForgetSources

        del work, snapshot, alone
        commit.drop_table(relation)
        commit.also(ForgetSources(str(relation.uuid)))


STREAM = StreamKind()
