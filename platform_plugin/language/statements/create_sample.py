"""CREATE SAMPLE: a sample that is drawn from a relation, or merged from other samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    DefinitionStatement,
    Statement,
    StatementOpening,
    create_text,
    read_new_name,
)
from platform_plugin.language.text import options as known
from platform_plugin.language.text.options import Option, read_options
from platform_plugin.language.text.writing import (
    identifier,
    name_text,
    options_text,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.places import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSample(DefinitionStatement):
    """A sample of at most `size` rows, and of at most `size_per_stratum` rows of each stratum where that is given.

    A sample that merges others has them as its `parts`, and its `relation` is the first of them.
    """

    name: WrittenName
    relation: WrittenName
    size: int
    parts: tuple[WrittenName, ...] = ()
    where: Span | None = None
    strata: tuple[str, ...] = ()
    size_per_stratum: int | None = None
    weight: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False

    @property
    def reads(self) -> tuple[WrittenName, ...]:
        """The relations that the sample is drawn from."""
        return self.parts or (self.relation,)


def read_create_sample(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after CREATE SAMPLE."""
    name, exists = read_new_name(cursor, "sample", replaced=False)
    cursor.expect("ON")
    parts = _read_parts(cursor) if cursor.accept("SAMPLES", "(") else ()
    relation = parts[0] if parts else cursor.name("a relation")
    cursor.expect("SIZE")
    size = _read_size(cursor)
    if parts and (taken := cursor.accept_one("WHERE", "WEIGHTED", "STRATIFIED")):
        cursor.advance(-1)
        raise cursor.fail("WITH", message=f"a merged sample has no {taken}", hint="its rows are those of its samples: say it there")
    where, weight, each = None, None, None
    strata: tuple[str, ...] = ()
    if cursor.accept("WHERE"):
        where = cursor.until("a condition", "WEIGHTED", "STRATIFIED", "WITH")
    if cursor.accept("WEIGHTED", "BY"):
        bracketed = cursor.accept("(")
        weight = cursor.identifier("a column")
        if bracketed:
            cursor.expect(")")
    if cursor.accept("STRATIFIED", "BY"):
        strata = cursor.names("a column") if cursor.at_words("(") else (cursor.identifier("a column"),)
        if cursor.accept("SIZE"):
            each = _read_size(cursor)
            cursor.expect("PER", "STRATUM")
    options = read_options(cursor, known.SAMPLE, "a sample") if cursor.accept("WITH") else ()
    return CreateSample(
        name=name,
        relation=relation,
        size=size,
        parts=parts,
        where=where,
        strata=strata,
        size_per_stratum=each,
        weight=weight,
        options=options,
        if_not_exists=exists,
    )


def _read_parts(cursor: TokenCursor) -> tuple[WrittenName, ...]:
    """The samples of a merged one, after `SAMPLES (`."""
    parts = [cursor.name("a sample")]
    while cursor.accept(","):
        parts.append(cursor.name("a sample"))
    if len(parts) < 2:
        raise cursor.fail(",", message="a merged sample needs two samples at least", hint="write ON SAMPLES (one, other)")
    cursor.expect(")")
    return tuple(parts)


def _read_size(cursor: TokenCursor) -> int:
    if cursor.upper() == "" and cursor.tokens.text(cursor.index) == "0":
        raise cursor.fail(message="a sample needs a size of at least one row")
    return cursor.integer("a number of rows")


def create_sample_text(statement: CreateSample) -> str:
    """The statement as text."""
    parts = ", ".join(name_text(part) for part in statement.parts)
    of = f"SAMPLES ({parts})" if parts else name_text(statement.relation)
    text = create_text("SAMPLE", statement.name, f" ON {of} SIZE {statement.size}", replaced=False, exists=statement.if_not_exists)
    if statement.where is not None:
        text += f" WHERE {statement.where.text}"
    if statement.weight is not None:
        text += f" WEIGHTED BY ({identifier(statement.weight)})"
    if statement.strata:
        text += f" STRATIFIED BY ({', '.join(identifier(column) for column in statement.strata)})"
    if statement.size_per_stratum is not None:
        text += f" SIZE {statement.size_per_stratum} PER STRATUM"
    return text + (f" WITH {options_text(statement.options)}" if statement.options else "")
