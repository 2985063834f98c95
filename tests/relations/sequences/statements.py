"""CREATE SEQUENCE and NEXT VALUE FOR: values, readers and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.registry import StatementKind
from platform_plugin.language.statements.statement import DefinitionStatement, Statement, create_text, read_new_name
from platform_plugin.language.text.kind_words import KindWord

if TYPE_CHECKING:
    from platform_plugin.language.statements.statement import StatementOpening
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence(DefinitionStatement):
    """A relation of one row: the number that comes next."""

    name: WrittenName
    start: int = 1
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NextValue(Statement):
    """One number of a sequence, which nobody else gets."""

    name: WrittenName


def read_create_sequence(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after CREATE SEQUENCE."""
    name, exists = read_new_name(cursor, "sequence", replaced=opening.replaced)
    start = cursor.integer("a number") if cursor.accept("START", "WITH") else 1
    return CreateSequence(name=name, start=start, if_not_exists=exists)


def create_sequence_text(statement: CreateSequence) -> str:
    """The statement as text."""
    return create_text("SEQUENCE", statement.name, f" START WITH {statement.start}", replaced=False, exists=statement.if_not_exists)


def read_next_value(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after NEXT VALUE."""
    cursor.expect("FOR")
    return NextValue(name=cursor.name("a sequence"))


WORD = KindWord(word="SEQUENCE", plural="SEQUENCES")
STATEMENTS = (
    StatementKind(
        words=("CREATE SEQUENCE",),
        value=CreateSequence,
        read=read_create_sequence,
        text=create_sequence_text,
        run="tests.relations.sequences.define:run_create_sequence",
        reads_rows=False,
        replaces=False,
        page="kind",
    ),
    StatementKind(
        words=("NEXT VALUE",),
        value=NextValue,
        read=read_next_value,
        run="tests.relations.sequences.define:run_next_value",
        page="kind",
    ),
)
