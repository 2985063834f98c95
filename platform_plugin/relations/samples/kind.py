"""The kind *sample*: rows drawn at random from another relation, uniformly at every snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from platform_plugin.relations.kind import DeclarableKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language import statements as s
    from platform_plugin.relations.declarations import DeclaredRelation, DefinitionOutcome
    from platform_plugin.relations.follow.maintained import Maintenance
    from platform_plugin.relations.hooks import AppendPart, DropBlocker
    from platform_plugin.relations.lookups import SmallRelation
    from platform_plugin.relations.reading import Dependency, ReadContext, ReadRequest, RelationRows


class SampleKind(DeclarableKind["Table"]):
    """Samples of streams, which grow with them, and samples that are drawn when they are read."""

    name = "sample"
    plural = "SAMPLES"
    planned_as = "sample"
    intake = "sample"
    is_alterable = False

    def read(self, reading: ReadContext, relation: Table, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
        """The rows drawn from its relation at the snapshot."""
        from platform_plugin.relations.samples.source import read_source

        return read_source(reading, relation, snapshot, need)

    def find_small(self, work: Workspace, relation: Table, snapshot: Snapshot) -> SmallRelation | None:
        """Its rows, unless Spark must draw them."""
        from platform_plugin.relations.lookups import SmallRelation
        from platform_plugin.relations.samples.read import is_drawn_here, read_sample
        from platform_plugin.relations.samples.record import get_sample

        sample = get_sample(work.lake, relation, snapshot)
        return SmallRelation(sample.table, read_sample(work, sample, snapshot).rows if is_drawn_here(work, sample, snapshot) else None)

    def dependencies(self, work: Workspace, relation: Table, snapshot: Snapshot) -> Iterator[Dependency]:
        """The relations that it is drawn from. A window of time moves with every snapshot."""
        from platform_plugin.relations.samples.record import get_sample
        from platform_plugin.relations.samples.sources import find_dependencies

        return find_dependencies(work, get_sample(work.lake, relation, snapshot), snapshot)

    def facts(self, work: Workspace, relation: Table, declaration: Declaration, snapshot: Snapshot, *, internal: bool) -> Mapping[str, Any]:
        """Its cardinality, the coverage of its strata, and its age."""
        from platform_plugin.relations.samples.figures import sample_facts
        from platform_plugin.relations.samples.record import get_sample

        del declaration, internal
        return sample_facts(work, get_sample(work.lake, relation, snapshot), snapshot)

    def declared(self, statement: s.Statement) -> DeclaredRelation | None:
        """The definition in a CREATE SAMPLE."""
        from platform_plugin.relations.samples.differences import read_declared

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
        """Create the sample; one that exists is not changed."""
        from platform_plugin.relations.declarations import DefinitionOutcome
        from platform_plugin.relations.samples.define import run_create_sample

        del since, progress
        if old is not None:
            return None
        run_create_sample(work, cast("s.CreateSample", statement))
        return DefinitionOutcome("created")

    def differences(self, declared: s.Statement, stored: s.Statement) -> Iterator[str]:
        """Differences in relation, size, condition, strata, weight and window."""
        from platform_plugin.relations.samples.differences import sample_differences

        return sample_differences(declared, stored)

    def takes_in(self, declaration: Declaration) -> bool:
        """Always: a run draws or merges its rows."""
        del declaration
        return True

    def text(self, lake: Lake, relation: Table, declaration: Declaration, snapshot: Snapshot) -> str:
        """CREATE SAMPLE with its seed."""
        from platform_plugin.language.statements.registry import statement_text
        from platform_plugin.relations.samples.definition import SampleDefinition
        from platform_plugin.relations.samples.record import SampleRecord
        from platform_plugin.relations.samples.sources import sample_statement
        from platform_plugin.relations.target import statement_name

        sample = SampleRecord(table=relation, definition=SampleDefinition.of(declaration.options))
        return statement_text(sample_statement(lake, statement_name(relation), sample, snapshot))

    def refuse_append(self, table: Table, declaration: Declaration) -> None:
        """Refuse: its rows are drawn."""
        self.refuse_change(table, declaration)

    def refuse_change(self, table: Table, declaration: Declaration) -> None:
        """Refuse: its rows are drawn."""
        from platform_plugin.errors import InvalidValue

        del declaration
        raise InvalidValue(f'"{table.name}" is a sample', hint="write to what it is drawn from")

    def drop(self, work: Workspace, commit: Commit, relation: Table, snapshot: Snapshot, *, alone: bool) -> None:
        """Drop it with its cursor in its stream."""
        from platform_plugin.relations.samples.remove import drop_sample

        del work, snapshot
        drop_sample(commit, relation, alone=alone)

    def appending(self, lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> AppendPart | None:
        """The samples of a stream pick rows from those that are appended."""
        from platform_plugin.relations.samples.reservoir.picking import prepare_picks

        return prepare_picks(lake, base, table, rows)

    def find_blocker(self, work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> DropBlocker | None:
        """The samples of a stream, or those that merge a sample."""
        from platform_plugin.relations.samples.remove import find_samples

        return find_samples(work.lake, table, kind, snapshot) if kind in ("stream", self.name) else None

    def maintenance(self) -> Sequence[Maintenance[Any]]:
        """Samples of streams consume what has arrived."""
        from platform_plugin.relations.samples.follow import SAMPLES

        return (SAMPLES,)


SAMPLE = SampleKind()
