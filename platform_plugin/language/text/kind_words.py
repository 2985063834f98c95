"""The words for kinds of relations (TABLE, STREAM, VIEW, …), and what ALTER and SHOW accept for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.language.text import options as known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.language.text.cursor import TokenCursor

# Which of a feed's options a stream knows depends on the feed it has.
_FEED = {name: takes for options in (known.FEEDS["KAFKA"], known.FEEDS["FILES"]) for name, takes in options.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWord:
    """A kind of relation, by its word in statements."""

    word: str
    plural: str
    spellings: tuple[tuple[str, ...], ...] = ()
    """Other spellings of the word, from PostgreSQL and other systems."""
    is_altered: bool = False
    has_columns: bool = True
    """Whether ALTER can change its columns."""
    options: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """The options that SET of ALTER accepts."""


KIND_WORDS: list[KindWord] = [
    KindWord(word="TABLE", plural="TABLES", is_altered=True, options=known.TABLE),
    KindWord(word="STREAM", plural="STREAMS", spellings=(("FOREIGN", "TABLE"),), is_altered=True, options=known.STREAM | _FEED),
    KindWord(
        word="VIEW",
        plural="VIEWS",
        spellings=(("CONTINUOUS", "VIEW"), ("MATERIALIZED", "VIEW")),
        is_altered=True,
        has_columns=False,
        options=known.VIEW,
    ),
    KindWord(word="SAMPLE", plural="SAMPLES"),
]
"""The one list of the words for kinds; a kind from outside the package adds its word when it registers."""


def list_kind_words() -> tuple[str, ...]:
    """The words for kinds."""
    return tuple(kind.word for kind in KIND_WORDS)


def find_kind_word(word: str) -> KindWord:
    """The kind that a word stands for."""
    return next(kind for kind in KIND_WORDS if kind.word == word)


def read_kind_word(cursor: TokenCursor, *, altered: bool = False, also: tuple[str, ...] = ()) -> str:
    """The kind of relation that the cursor stands at, or one of the words `also`."""
    kinds = [kind for kind in KIND_WORDS if kind.is_altered or not altered]
    for kind in kinds:
        for spelling in kind.spellings:
            if cursor.accept(*spelling):
                return kind.word
    return cursor.expect_one(*(kind.word for kind in kinds), *also)
