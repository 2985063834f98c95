"""`normalise_statement`: a statement's text without layout and comments, for comparing two statements."""

from __future__ import annotations

from platform_plugin.language.text.tokens import WORD, tokenize
from platform_plugin.language.text.words import RESERVED


def normalise_statement(text: str) -> str:
    r"""A statement without comments and layout, with keywords in one case, for comparing.

    >>> normalise_statement("select uid -- who\n from  Posts") == normalise_statement("SELECT uid FROM Posts")
    True
    """
    tokens = tokenize(text)
    words = (tokens.text(index) for index in range(len(tokens)))
    return " ".join(
        word.upper() if kind == WORD and word.upper() in RESERVED else word for word, kind in zip(words, tokens.kinds, strict=True)
    )
