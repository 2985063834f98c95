"""`name_missing_relations`: errors about an unknown relation name the expected kind and its nearest relation."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from platform_plugin.errors import UnknownObject
from platform_plugin.lake.catalogue.relations import STATE, Declaration, read_declarations
from platform_plugin.lake.catalogue.tables import find_nearest_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.lake import Lake

_LISTED_BY = {"stream": "SHOW STREAMS", "sample": "SHOW SAMPLES", "view": "SHOW VIEWS"}


@contextmanager
def name_missing_relations(lake: Lake, name: Name, snapshot: Snapshot, *kinds: str) -> Iterator[None]:
    """Let errors about an unknown relation name these kinds; without any, whatever a query can name."""
    try:
        yield
    except UnknownObject as error:
        near = find_nearest_name(name, _names(lake, snapshot, kinds))
        listed = _join_words([_LISTED_BY[kind] for kind in kinds], "and") or "SHOW TABLES"
        hint = f"did you mean {near}?" if near is not None else f"{listed} {'lists' if len(kinds) < 2 else 'list'} what there is"
        what = _join_words(kinds, "or") or "relation"
        raise UnknownObject(f'{what} "{name}" does not exist at snapshot {snapshot.id}', hint=hint) from error


def _join_words(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _names(lake: Lake, snapshot: Snapshot, kinds: Collection[str]) -> Iterator[Name]:
    with lake.reading() as connection:
        declared = read_declarations(connection)
    for table in lake.tables(snapshot):
        kind = declared.get(str(table.uuid), Declaration()).kind
        if kind in kinds or (not kinds and kind != STATE):
            yield table.name
    if not kinds or "view" in kinds:
        yield from (view.name for view in lake.views(snapshot))
