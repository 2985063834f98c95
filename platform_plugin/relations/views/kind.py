"""The kinds *view* and *state*: a query with a name, and the tables that a continuous view stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.relations.kind import DeclarableKind, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.plan.nodes import Output
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language import statements as s
    from platform_plugin.relations.declarations import DeclaredRelation, DefinitionOutcome, DescribedRelation
    from platform_plugin.relations.follow.maintained import Maintenance
    from platform_plugin.relations.hooks import DropBlocker
    from platform_plugin.relations.lookups import RecentResult, SmallRelation
    from platform_plugin.relations.reading import Dependency, ReadContext, ReadRequest, RelationRows


class ViewKind(DeclarableKind["View"]):
    """Queries with a name, which are computed at each read or, over streams, maintained."""

    name = "view"
    plural = "VIEWS"
    reflected_as = "view"

    def read(self, reading: ReadContext, relation: View, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
        """The stored result if it is valid, else the states with unconsumed rows, else the query."""
        from platform_plugin.relations.views.read.source import read_source

        return read_source(reading, relation, snapshot, need)

    def find_small(self, work: Workspace, relation: View, snapshot: Snapshot) -> SmallRelation | None:
        """The stored result, if nothing has changed since."""
        from platform_plugin.relations.lookups import read_stored
        from platform_plugin.relations.views.read.stored import find_stored

        stored = find_stored(work, relation, snapshot)
        return None if stored is None else read_stored(work, stored, snapshot)

    def compute_small(self, work: Workspace, relation: View, snapshot: Snapshot) -> SmallRelation | None:
        """A view that has changed, computed with Arrow."""
        from platform_plugin.relations.lookups import SmallRelation
        from platform_plugin.relations.views.read.local import read_local

        local = read_local(work, relation, snapshot)
        return None if local is None else SmallRelation(local.table, local.rows)

    def find_recent(self, work: Workspace, relation: View, snapshot: Snapshot, staleness: timedelta) -> RecentResult | None:
        """The stored result, if it is recent enough."""
        from platform_plugin.relations.views.read.stored import find_recent

        return find_recent(work, relation, snapshot, staleness)

    def dependencies(self, work: Workspace, relation: View, snapshot: Snapshot) -> Iterator[Dependency]:
        """The relations that a continuous view's plan reads; those of another view are not known."""
        from platform_plugin.relations.views.read.stored import find_dependencies

        return find_dependencies(work, relation, snapshot)

    def fields(self, work: Workspace, relation: View, snapshot: Snapshot) -> tuple[Field, ...]:
        """The columns of its result; for a view that is not continuous, those of its query at the snapshot."""
        from platform_plugin.relations.views.figures import view_fields

        return view_fields(work, relation, snapshot)

    def planned_columns(self, work: Workspace, relation: View, snapshot: Snapshot) -> tuple[Output, ...]:
        """The columns of its result; of a view that is not continuous, those of its query's plan."""
        from platform_plugin.relations.views.figures import planned_view_columns

        return planned_view_columns(work, relation, snapshot)

    def facts(self, work: Workspace, relation: View, declaration: Declaration, snapshot: Snapshot, *, internal: bool) -> Mapping[str, Any]:
        """Its query; for a continuous view also the size of its states and its unconsumed rows."""
        from platform_plugin.relations.views.figures import find_facts

        return find_facts(work, relation, declaration, snapshot, internal=internal)

    def notices(self, work: Workspace, relation: View, snapshot: Snapshot) -> tuple[str, ...]:
        """Of a continuous view the tables that it read once and that have changed since."""
        from platform_plugin.relations.views.figures import find_notices

        return find_notices(work, relation, snapshot)

    def declared(self, statement: s.Statement) -> DeclaredRelation | None:
        """The definition in a CREATE VIEW."""
        from platform_plugin.relations.views.declaration import read_declared

        return read_declared(statement)

    def define(
        self,
        work: Workspace,
        statement: s.Statement,
        old: View | None,
        *,
        since: Snapshot | None = None,
        progress: ProgressHandler | None = None,
    ) -> DefinitionOutcome | None:
        """A view whose query has changed starts over; a new lag is set without that."""
        from platform_plugin.relations.views.declaration import define_view

        del progress
        return define_view(work, statement, old, since=since)

    def describe(
        self, connection: Connection, relations: Sequence[View], declarations: Mapping[str, Declaration]
    ) -> Iterator[DescribedRelation]:
        """The queries of views, and the columns and options of continuous ones."""
        from platform_plugin.relations.views.declaration import describe_views

        del declarations
        return describe_views(connection, relations)

    def text(self, lake: Lake, relation: View, declaration: Declaration, snapshot: Snapshot) -> str:
        """CREATE VIEW."""
        from platform_plugin.relations.views.explain import view_text

        del snapshot
        return view_text(lake, relation, declaration)

    def set_query_options(self, work: Workspace, commit: Commit, view: View, declaration: Declaration, options: Sequence[s.Option]) -> None:
        """The lag, the size of batches and the engine of a continuous view; it is maintained on as it was."""
        from platform_plugin.relations.views.declaration import alter_options

        del declaration
        alter_options(work, commit, view, options)

    def drop(self, work: Workspace, commit: Commit, relation: View, snapshot: Snapshot, *, alone: bool) -> None:
        """Drop it, with those of its tables that no other view shares."""
        from platform_plugin.relations.views.build import drop_views

        del alone
        drop_views(work, commit, [relation], snapshot)

    def maintenance(self) -> Sequence[Maintenance[Any]]:
        """Continuous views consume their streams; the results that are kept are stored."""
        from platform_plugin.relations.views.follow.results import RESULTS
        from platform_plugin.relations.views.follow.step import VIEWS

        return VIEWS, RESULTS

    def find_blocker(self, work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> DropBlocker | None:
        """The continuous views over a stream."""
        from platform_plugin.relations.views.define import find_consuming_views

        return find_consuming_views(work.lake, table, snapshot) if kind == "stream" else None


class StateKind(Kind["Table"]):
    """Tables that hold the states, the static parts or the result of a continuous view."""

    name = "state"
    plural = "STATES"
    is_hidden = True

    def text(self, lake: Lake, relation: Table, declaration: Declaration, snapshot: Snapshot) -> str:
        """A CREATE TABLE with its columns; the table itself comes from its view's statement."""
        from platform_plugin.language.statements.create_table import CreateTable
        from platform_plugin.language.statements.registry import statement_text
        from platform_plugin.relations.target import statement_name

        del lake, declaration, snapshot
        return statement_text(CreateTable(name=statement_name(relation), columns=relation.fields, comment=relation.comment))

    def refuse_append(self, table: Table, declaration: Declaration) -> None:
        """Refuse: only maintenance writes it."""
        self.refuse_change(table, declaration)

    def refuse_change(self, table: Table, declaration: Declaration) -> None:
        """Refuse: only maintenance writes it."""
        from platform_plugin.errors import InvalidValue

        del declaration
        raise InvalidValue(f'table "{table.name}" is part of a continuous view', hint="only maintenance writes it")

    def drop(self, work: Workspace, commit: Commit, relation: Table, snapshot: Snapshot, *, alone: bool) -> None:
        """Drop the table."""
        del work, snapshot, alone
        commit.drop_table(relation)


VIEW = ViewKind()
STATE = StateKind()
