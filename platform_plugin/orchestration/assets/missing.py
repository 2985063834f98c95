"""`find_missing`: names in queries of files that neither a file nor the lake has, for a warning when files are loaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from platform_plugin.errors import NoLake
from platform_plugin.lake.catalogue.tables import find_nearest_name
from platform_plugin.language.text.places import suggest_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.orchestration.assets.inventory import Inventory
    from platform_plugin.orchestration.assets.tracing import Tracing
    from platform_plugin.orchestration.components.model import Model

_COLUMN = re.compile(r'column "(?:.*\.)?([^".]+)" does not exist')


def find_missing(models: Sequence[Model], inventory: Inventory, tracing: Tracing, elsewhere: Callable[[Name], bool]) -> Iterator[str]:
    """A line for each file whose query names an unknown relation or column; `elsewhere` tells what other components declare."""
    if inventory.absence is not None and not isinstance(inventory.absence, NoLake):
        return
    declared = {str(model.name).lower(): model.name for model in models}
    stored = {key: each.name for key, each in {**inventory.known, **inventory.relations}.items()}
    known = {**stored, **declared}
    for model in models:
        absent = next((name for name in model.reads if str(name).lower() not in known and not elsewhere(name)), None)
        if absent is not None:
            near = find_nearest_name(absent, known.values())
            hint = f"; did you mean {near}?" if near is not None else ""
            yield f'file "{model.file}": relation "{absent}" is in no file and not in the lake{hint}'
        elif model.reads and (found := _missing_column(model, tracing, known)):
            yield f'file "{model.file}": {found}'


def _missing_column(model: Model, tracing: Tracing, known: dict[str, Name]) -> str | None:
    trouble = tracing.of(model.name).trouble
    found = _COLUMN.match(trouble.message) if trouble is not None else None
    if trouble is None or found is None:
        return None
    read = [known[key] for name in model.reads if (key := str(name).lower()) in known]
    hint = suggest_word(found[1], [column.name for name in read for column in tracing.of(name).columns])
    line = getattr(trouble, "line", 0)
    return f"{f'line {line}: ' if line else ''}{trouble.message}{f'; {hint}' if hint else ''}"
