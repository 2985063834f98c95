"""Quoting names in compiled statements, with back-ticks where they must be quoted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlalchemy.sql.compiler import IdentifierPreparer

from platform_plugin.language.text.words import RESERVED

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect


class PlatformIdentifierPreparer(IdentifierPreparer):
    """Quotes names with back-ticks and doubles those inside, so that no name can end its own quotes."""

    reserved_words = {word.lower() for word in RESERVED}  # noqa: RUF012  SQLAlchemy declares it so
    legal_characters = re.compile(r"^[A-Z_][A-Z0-9_]*$", re.IGNORECASE | re.ASCII)

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect, initial_quote="`", final_quote="`", escape_quote="`")

    def _requires_quotes(self, value: str) -> bool:
        # `$` before a final line break would let one pass; names that match whole are the only ones left bare.
        return super()._requires_quotes(value) or self.legal_characters.fullmatch(value) is None
