"""The components `Stream`, `ContinuousView`, `HistoryTable`, `Sample` and `Upkeep`, which a YAML file declares."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from platform_plugin.errors import InvalidStatement, InvalidValue, PlatformError, in_file
from platform_plugin.language.text.writing import identifier
from platform_plugin.orchestration.assets.assets import build_assets
from platform_plugin.orchestration.assets.inventory import Inventory, read_inventory
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.components.documentation import Check, Documentation, read_suite
from platform_plugin.orchestration.components.model import parse_model, suite_path, with_suite
from platform_plugin.orchestration.components.place import lake_url
from platform_plugin.orchestration.components.project import file_errors
from platform_plugin.orchestration.components.scaffolding import NounScaffolder
from platform_plugin.orchestration.sensors.sensing import Sensing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from platform_plugin.orchestration.assets.assets import BuiltAssets
    from platform_plugin.orchestration.components.model import Model


class Noun(dg.Component, dg.Model, dg.Resolvable):
    """The attributes that all relations have, and the statement that creates one. A noun of your own overrides `statement`."""

    name: str = Field(description="The relation, as `posts` or `raw.posts`.")
    description: str | None = Field(default=None, description="What people should know of it.")
    owners: list[str] = Field(default_factory=list, description="Who answers for it: team:growth, or an address.")
    tags: dict[str, str] = Field(default_factory=dict, description="Tags of the asset.")
    column_descriptions: dict[str, str] = Field(default_factory=dict, description="What each column means.")
    checks: list[Check] = Field(default_factory=list, description="What is to be asserted of it.")
    rebuild: str | None = Field(default=None, description="When a table made by a query is built again: `on_change`, or a cron expression.")
    suite: str | None = Field(default=None, description="The file of its suite of expectations, seen from the folder of this one.")
    url: str | None = Field(default=None, description="The lake; by default the one in PLATFORM_URL, or .platform/lake in the project.")

    @property
    def translator(self) -> Translator:
        """The translator of the relations' assets."""
        return Translator()

    @property
    @abstractmethod
    def statement(self) -> str:
        """The SQL that creates it."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The asset, or for a continuous view the two of them."""
        try:
            model = self.model_at(Path(context.path) / "defs.yaml")
        except PlatformError as error:
            raise file_errors(context, self._named(error)) from None
        inventory = read_inventory(self.url or lake_url(context.project_root))
        built = build_single(model, inventory, self.translator)
        return dg.Definitions(assets=list(built.assets), asset_checks=list(built.checks))

    def find_errors(self, path: Path, file: str) -> Iterator[PlatformError]:
        """What is wrong with what it declares."""
        try:
            self.model_at(path / "defs.yaml")
        except PlatformError as error:
            yield in_file(self._named(error), file)

    def _named(self, error: PlatformError) -> PlatformError:
        return InvalidStatement(f'{type(self).__name__} "{self.name}": {error.message}', detail=error.detail, hint=error.hint)

    def model_at(self, path: Path) -> Model:
        """The model that a file with this path would declare."""
        said = Documentation(
            description=self.description,
            owners=self.owners,
            tags=self.tags,
            columns=self.column_descriptions,
            checks=self.checks,
            rebuild=self.rebuild,
            suite=self.suite,
        )
        model = parse_model(self.statement, file=path.name, path=path, documentation=said)
        named = suite_path(model)
        return model if named is None else with_suite(model, read_suite(path, shown=path.name, named=named))


def build_single(model: Model, inventory: Inventory, translator: Translator, *, checked_within: bool = False) -> BuiltAssets:
    """The assets of one relation; of the rest of the lake only the columns are used."""
    others = Inventory(snapshot=inventory.snapshot, known=inventory.relations, absence=inventory.absence, endpoint=inventory.endpoint)
    return build_assets([model], others, translator, step=f"{model.name.schema}__{model.name.relation}", checked_within=checked_within)


@dg.scaffold_with(NounScaffolder)
class Stream(Noun):
    """A relation with retention, filled by writers or from a source.

    Rows that arrive are reported with their rates by the sensor of `Upkeep`; continuous views are made over it.
    """

    columns: dict[str, str] = Field(default_factory=dict, description="Columns with their types in SQL; a TABLE feed brings its own.")
    retention_rows: int | None = Field(default=None, description="How many of the newest rows stay.")
    retention: str | None = Field(default=None, description="How long rows stay, as `1 hour`.")
    source: str | None = Field(
        default=None, description="What it reads, in SQL: FILES 's3://…/*.csv' (FORMAT csv), KAFKA '…' (TOPIC …) or TABLE name."
    )

    @property
    def statement(self) -> str:
        """The SQL that creates it."""
        options = {"retention_rows": self.retention_rows, "retention": self.retention}
        source = f"\nFROM {self.source}" if self.source else ""
        return f"CREATE STREAM {_name(self.name)}{_columns(self.columns.items())}{source}{_options(options)}"


@dg.scaffold_with(NounScaffolder)
class ContinuousView(Noun):
    """A query over streams that is kept current: a base that runs maintain, and a view that is current at every read.

    A query that can't be maintained is refused with the rule that it breaks and what to write instead.
    """

    query: str = Field(description="The SELECT, over streams and whatever they are joined with.")
    target_lag: str | None = Field(
        default=None, description="How far what is stored may be behind, as `5 seconds`; reads are never behind."
    )
    start: str | None = Field(default=None, description="`earliest` to begin with what the stream holds, `now` (default) with what comes.")

    @property
    def statement(self) -> str:
        """The SQL that creates it."""
        options = _options({"target_lag": self.target_lag, "start": self.start})
        return f"CREATE CONTINUOUS VIEW {_name(self.name)}{options} AS\n{self.query.strip().rstrip(';')}"


@dg.scaffold_with(NounScaffolder)
class HistoryTable(Noun):
    """A table whose rows stay: empty with its columns, or built again from a query whenever it is materialized."""

    columns: dict[str, str] = Field(default_factory=dict, description="Columns with their types in SQL, unless a query gives them.")
    primary_key: list[str] = Field(default_factory=list, description="The columns that name a row.")
    query: str | None = Field(default=None, description="The SELECT that the table is the result of.")

    @property
    def statement(self) -> str:
        """The SQL that creates it."""
        if self.query is not None:
            return f"CREATE TABLE {_name(self.name)} AS\n{self.query.strip().rstrip(';')}"
        keys = [("PRIMARY KEY", f"({', '.join(identifier(key) for key in self.primary_key)})")] if self.primary_key else []
        return f"CREATE TABLE {_name(self.name)}{_columns(self.columns.items(), keys)}"


@dg.scaffold_with(NounScaffolder)
class Sample(Noun):
    """A uniform sample of a stream, a table or a view, maintained while rows arrive, or merged from other samples."""

    relation: str | None = Field(default=None, description="What it is drawn from, unless it merges samples.")
    samples: list[str] = Field(default_factory=list, description="The samples that it merges, of relations with the same columns.")
    size: int = Field(description="How many rows it has at most.")
    where: str | None = Field(default=None, description="The condition for rows that count, in SQL.")
    strata: list[str] = Field(default_factory=list, description="Columns; rows of each of their values are drawn apart.")
    window: str | None = Field(default=None, description="`1 hour`, `100000 rows` or `retention`: what the sample is of moves on.")
    weighted_by: str | None = Field(default=None, description="The column by which rows are likelier to be drawn.")
    half_life: str | None = Field(default=None, description="After how long, as `1 hour`, a row is half as likely to be drawn.")
    time_column: str | None = Field(default=None, description="The column that says when a row was, for `half_life`.")

    @property
    def statement(self) -> str:
        """The SQL that creates it."""
        where = f"\nWHERE {self.where}" if self.where else ""
        strata = f"\nSTRATIFIED BY ({', '.join(identifier(column) for column in self.strata)})" if self.strata else ""
        weight = f"\nWEIGHTED BY ({identifier(self.weighted_by)})" if self.weighted_by else ""
        options = _options({"window": self.window, "half_life": self.half_life, "time_column": self.time_column})
        if (self.relation is None) == (not self.samples):
            raise InvalidValue(f'sample "{self.name}" needs a relation or samples to merge', hint="give `relation`, or else `samples`")
        of = _name(self.relation) if self.relation is not None else f"SAMPLES ({', '.join(map(_name, self.samples))})"
        return f"CREATE SAMPLE {_name(self.name)} ON {of} SIZE {self.size}{where}{weight}{strata}{options}"


class Upkeep(Sensing):
    """The sensors that keep the relations of a lake current; an `SqlFolder` brings them too."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The sensors and their jobs."""
        return self.build_sensors(context)


def _name(written: str) -> str:
    return ".".join(identifier(part) for part in written.split("."))


def _columns(columns: Iterable[tuple[str, str]], more: Iterable[tuple[str, str]] = ()) -> str:
    lines = [*(f"    {identifier(name)} {kind}" for name, kind in columns), *(f"    {name} {kind}" for name, kind in more)]
    body = ",\n".join(lines)
    return f" (\n{body}\n)" if lines else ""


def _options(options: Mapping[str, str | int | None]) -> str:
    given = [f"{name} = {_literal(value)}" for name, value in options.items() if value is not None]
    return f" WITH ({', '.join(given)})" if given else ""


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
