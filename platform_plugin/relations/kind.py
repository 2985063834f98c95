"""`Kind` and `DeclarableKind`: what statements, clients and Dagster ask of each kind of relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, runtime_checkable

from platform_plugin.relations.hooks import Listener

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.plan.nodes import Output, RelationKind
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
    from platform_plugin.relations.lookups import RecentResult, SmallRelation
    from platform_plugin.relations.reading import Dependency, ReadContext, ReadRequest, RelationRows

R_contra = TypeVar("R_contra", bound="Table | View", contravariant=True)
"""A relation of the kind in the catalogue: a table or a view."""
Reflection = Literal["table", "view", "sequence"]


class Kind(Listener, Protocol[R_contra]):
    """One kind of relation. The defaults suit a relation whose rows are the files of its own table; a kind overrides what differs.

    A kind is in `KINDS`, and its module imports what it needs inside its methods: the list of kinds must be cheap to import.
    """

    name: str
    """The word for it in the catalogue and in statements, as `stream`."""
    plural: str
    """What SHOW lists it under, as `STREAMS`."""
    reflected_as: Reflection = "table"
    """The list of SQLAlchemy's names that has it."""
    planned_as: RelationKind = "table"
    """Its kind in the plan of a query: `table`, unless views follow its changes."""
    is_alterable: bool = True
    """Whether ALTER changes it."""
    is_hidden: bool = False
    """Whether it is part of another relation: no list shows it, and no file declares it."""
    has_arrivals: bool = False
    """Whether its rows have row ids and arrival times."""

    def read(self, reading: ReadContext, relation: R_contra, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
        """The rows at a snapshot as a DataFrame; what is read for it is counted in `reading`."""
        from platform_plugin.relations.reading import read_table

        return read_table(reading, cast("Table", relation), snapshot, need)

    def find_small(self, work: Workspace, relation: R_contra, snapshot: Snapshot) -> SmallRelation | None:
        """Its stored rows, in memory if they are few; None if no stored table has exactly its rows."""
        from platform_plugin.relations.lookups import read_stored

        return read_stored(work, cast("Table", relation), snapshot)

    def compute_small(self, work: Workspace, relation: R_contra, snapshot: Snapshot) -> SmallRelation | None:
        """The rows where `find_small` has none, computed here if that needs no engine; else None."""
        del work, relation, snapshot
        return None

    def find_recent(self, work: Workspace, relation: R_contra, snapshot: Snapshot, staleness: timedelta) -> RecentResult | None:
        """Stored rows that are behind the snapshot by at most `staleness`; None if there are none, or if rows are never behind."""
        del work, relation, snapshot, staleness
        return None

    def dependencies(self, work: Workspace, relation: R_contra, snapshot: Snapshot) -> Iterator[Dependency]:
        """The relations besides its own table that its rows depend on; raises `UnknownDependency` for the time or chance."""
        del work, relation, snapshot
        return iter(())

    def fields(self, work: Workspace, relation: R_contra, snapshot: Snapshot) -> tuple[Field, ...]:
        """Its columns at a snapshot."""
        del work, snapshot
        return cast("Table", relation).fields

    def planned_columns(self, work: Workspace, relation: R_contra, snapshot: Snapshot) -> tuple[Output, ...]:
        """Its columns as the plan of a query has them, found without an engine; raises `NotPlanned` where only Spark knows them."""
        from platform_plugin.algebra.plan.nodes import Output

        del work, snapshot
        return tuple(Output(name=field.name, type=field.type) for field in cast("Table", relation).fields)

    def facts(
        self, work: Workspace, relation: R_contra, declaration: Declaration, snapshot: Snapshot, *, internal: bool
    ) -> Mapping[str, Any]:
        """The figures of DESCRIBE EXTENDED besides kind, size and comment; `internal` adds the names of its parts."""
        del work, snapshot, internal
        key = {"primary_key": ", ".join(declaration.primary_key)} if declaration.primary_key else {}
        return {**declaration.options, **dict(cast("Table", relation).file_options.declared), **key}

    def notices(self, work: Workspace, relation: R_contra, snapshot: Snapshot) -> tuple[str, ...]:
        """What DESCRIBE says below the columns, because readers of it may expect something else."""
        del work, relation, snapshot
        return ()

    def text(self, lake: Lake, relation: R_contra, declaration: Declaration, snapshot: Snapshot) -> str:
        """The statement that creates a relation like this one."""
        ...

    def reflect_options(self, declaration: Declaration) -> Mapping[str, Any]:
        """The options of an SQLAlchemy table that make it a relation of this kind, without the dialect's prefix."""
        del declaration
        return {}

    def refuse_append(self, table: Table, declaration: Declaration) -> None:
        """Raise an error if statements can't add rows to it."""
        del table, declaration

    def refuse_change(self, table: Table, declaration: Declaration) -> None:
        """Raise an error if statements can't update or delete its rows."""
        del table, declaration

    def find_twin(self, work: Workspace, table: Table, declaration: Declaration, snapshot: Snapshot, statement: s.Alter) -> Table | None:
        """The table that ALTER must change in the same commit, or None; an error if the relation changes only with another one."""
        del work, table, declaration, snapshot, statement
        return None

    def set_options(self, commit: Commit, table: Table, declaration: Declaration, options: Sequence[s.Option]) -> None:
        """Write the options of ALTER … SET in a commit."""
        from platform_plugin.relations.options import declare_options, stored_option

        declare_options(commit, table, declaration, dict(stored_option(option) for option in options))

    def set_query_options(
        self, work: Workspace, commit: Commit, view: R_contra, declaration: Declaration, options: Sequence[s.Option]
    ) -> None:
        """The same of a kind whose relations are queries with a name."""
        from platform_plugin.errors import InvalidValue

        del work, commit, view, declaration, options
        raise InvalidValue(f"options of a {self.name} can't be altered", hint="create it again")

    def maintenance(self) -> Sequence[Maintenance[Any]]:
        """How its relations are maintained, if they store what follows from other relations."""
        return ()

    def drop(self, work: Workspace, commit: Commit, relation: R_contra, snapshot: Snapshot, *, alone: bool) -> None:
        """Drop it, with all that it stores, in a commit; `alone` if the statement names it, and not the relation that it belongs to."""
        ...


@runtime_checkable
class DeclarableKind(Kind[R_contra], Protocol[R_contra]):
    """A kind whose relations files of a Dagster project can declare, as assets. Of other kinds Dagster sees the columns alone."""

    intake: str | None = None
    """How a run adds rows to it: `ingest` reads a source, `sample` draws; None if no run does."""

    def declared(self, statement: s.Statement) -> DeclaredRelation | None:
        """The definition in a statement; None if it defines no relation of this kind."""
        ...

    def define(
        self,
        work: Workspace,
        statement: s.Statement,
        old: R_contra | None,
        *,
        since: Snapshot | None = None,
        progress: ProgressHandler | None = None,
    ) -> DefinitionOutcome | None:
        """Make the lake agree with a statement; None if there is a relation already that can only be compared with the statement.

        A relation that consumes arrivals begins `since` a snapshot, if one is given.
        """
        ...

    def differences(self, declared: s.Statement, stored: s.Statement) -> Iterator[str]:
        """The differences between a file's definition and the lake's, one line each."""
        del declared, stored
        return iter(())

    def describe(
        self, connection: Connection, relations: Sequence[R_contra], declarations: Mapping[str, Declaration]
    ) -> Iterator[DescribedRelation]:
        """The definitions of relations of this kind, in their order, from the catalogue alone."""
        from platform_plugin.lake.catalogue.relations import Declaration
        from platform_plugin.relations.declarations import DescribedRelation

        del connection
        for relation in cast("Sequence[Table]", relations):
            declaration = declarations.get(str(relation.uuid), Declaration())
            yield DescribedRelation(
                fields=relation.fields,
                primary_key=declaration.primary_key,
                options=declaration.options,
                takes_in=self.takes_in(declaration),
            )

    def takes_in(self, declaration: Declaration) -> bool:
        """Whether a run ingests or draws rows for a relation with this declaration."""
        del declaration
        return False
