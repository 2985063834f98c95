"""Names: the lake's name for a written name, unique names for relations in a text, and the places of errors."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.text.places import Span, locate_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.language.text.names import WrittenName


# Spark finds a query's relations by name alone, in its session, while it looks at the query: threads that share a session
# would read each other's tables if two relations ever had the same name.
_NUMBERS = itertools.count()


def new_name() -> str:
    """A unique name for a relation in a query's text."""
    return f"_relation_{next(_NUMBERS)}"


def lake_name(name: WrittenName) -> Name:
    """The lake's name for a written name: without a schema it is in `main`."""
    return Name.of(name.relation) if name.schema is None else Name(schema=name.schema, relation=name.relation)


@contextmanager
def place_errors(span: Span) -> Iterator[None]:
    """Give errors that have no place yet the place of this part of the statement."""
    try:
        yield
    except PlatformError as error:
        if not getattr(error, "line", 0) and span.source:
            locate_offset(span, 0, len(span.text)).attach(error)
        raise
