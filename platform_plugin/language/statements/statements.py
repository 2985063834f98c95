"""Statements as values: what was asked, with the place of every part that is kept as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from typing import Literal as Choice

from platform_plugin.language.text.places import Span

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.algebra.types.data_types import DataType, Field
    from platform_plugin.language.text.values import Cell, Parameter

Kind = Choice["TABLE", "STREAM", "VIEW", "SAMPLE", "SCHEMA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A relation's name: `relation` or `schema.relation`, as it was written."""

    parts: tuple[str, ...]
    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))

    @property
    def schema(self) -> str | None:
        """The schema that was named, or None for the default one."""
        return self.parts[0] if len(self.parts) > 1 else None

    @property
    def relation(self) -> str:
        """The last part."""
        return self.parts[-1]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One `name = value` of a WITH, OPTIONS or COPY list."""

    name: str
    value: str | int | float | bool | timedelta | None
    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script, its place and the parameters it waits for."""

    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(Statement):
    """A history table, empty with these columns or filled by a query."""

    name: Name
    columns: tuple[Field, ...] = ()
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    query: Span | None = None
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateHistory(Statement):
    """A table that takes up every segment that leaves a stream."""

    name: Name
    stream: Name
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Where a stream pulls its rows from: FILES by glob, KAFKA by brokers/topic, or the appends of a TABLE, which `relation` names."""

    kind: Choice["FILES", "KAFKA", "TABLE"]
    location: str = field(repr=False)
    relation: Name | None = None
    options: tuple[Option, ...] = ()
    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream(Statement):
    """A bounded relation; a limit that is None does not apply."""

    name: Name
    columns: tuple[Field, ...] = ()
    retention_rows: int | None = None
    retention: timedelta | None = None
    retention_bytes: int | None = None
    on_overrun: Choice["abort", "block"] = "abort"
    overrun_grace: timedelta | None = None
    on_unconsumed: Choice["keep", "drop"] = "keep"
    feed: Feed | None = None
    comment: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewColumn:
    """The name a view gives to an output column, in order."""

    name: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(Statement):
    """A named query; `continuous` says that it was asked to be maintained."""

    name: Name
    query: Span
    aliases: tuple[ViewColumn, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    continuous: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSample(Statement):
    """A sample of at most `size` rows, of each stratum at most `size_per_stratum` where that is given.

    One that merges other samples has them as its `parts`, and its `relation` is the first of them.
    """

    name: Name
    relation: Name
    size: int
    parts: tuple[Name, ...] = ()
    where: Span | None = None
    strata: tuple[str, ...] = ()
    size_per_stratum: int | None = None
    weight: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False

    @property
    def reads(self) -> tuple[Name, ...]:
        """The relations that it is drawn from."""
        return self.parts or (self.relation,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema(Statement):
    """A namespace for relations."""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Statement):
    """The end of a relation or schema."""

    kind: Kind
    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new last column."""

    column: Field
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    """A column that goes."""

    column: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """A column's new name."""

    column: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRelation:
    """The relation's new name."""

    to: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class SetType:
    """A column's new, wider type."""

    column: str
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNullable:
    """Whether a column takes NULL from now on."""

    column: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """What new rows get in a column, or None for NULL."""

    column: str
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions:
    """Options that take new values; a stream's retention options are among them."""

    options: tuple[Option, ...]


Change = AddColumn | DropColumn | RenameColumn | RenameRelation | SetType | SetNullable | SetDefault | SetOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter(Statement):
    """One change to a relation."""

    kind: Kind
    name: Name
    change: Change
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(Statement):
    """What a relation or one of its columns means, or None to forget it."""

    kind: Kind
    name: Name
    column: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(Statement):
    """Rows to append: `rows` when every cell is a literal or a parameter, else only `query` for Spark to run."""

    name: Name
    query: Span
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] | None = None
    by_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Statement):
    """Rows to remove, all of them without a condition."""

    name: Name
    alias: str | None = None
    where: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One `column = expression`; `value` when the expression is a literal or a parameter."""

    column: str
    expression: Span
    value: Cell | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Statement):
    """Columns to set in the rows that meet a condition, in all without one."""

    name: Name
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    where: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Statement):
    """Files to append; `format` is None where the path's ending decides."""

    name: Name
    path: str | Parameter = field(repr=False)
    columns: tuple[str, ...] = ()
    format: Choice["csv", "json", "parquet"] | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Statement):
    """A query whose rows the caller wants."""

    query: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(Statement):
    """How a statement would be run."""

    statement: Statement
    mode: Choice["simple", "extended", "formatted", "cost", "codegen"] = "simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Statement):
    """A list from the catalogue: `subject` is the word after SHOW, or CREATE for the statement that makes a relation."""

    subject: str
    name: Name | None = None
    schema: str | None = None
    like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe(Statement):
    """What a relation is, with its options and figures when extended, and with the names of what is internal to it if asked."""

    name: Name
    extended: bool = False
    internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh(Statement):
    """Maintenance that is wanted now; `rebuild` starts over from the stream's history."""

    kind: Choice["VIEW", "SAMPLE"]
    name: Name
    rebuild: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendQuery(Statement):
    """A running query to put aside with what it has computed."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeQuery(Statement):
    """A suspended query to go on with."""

    id: str
