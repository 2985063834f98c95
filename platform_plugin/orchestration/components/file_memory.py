"""`JsonFileMemory`: traced queries in a file, so that a run does not trace a thousand views to maintain ten."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from platform_plugin import __version__
from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.cache import Cache
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.writing import type_text
from platform_plugin.orchestration.assets.lineage import Origin, Origins
from platform_plugin.orchestration.assets.tracing import Memory, ShownSplit, TracedRelation

if TYPE_CHECKING:
    from pathlib import Path

    from platform_plugin.algebra.plan.relations import RelationFacts
    from platform_plugin.algebra.types.data_types import DataType


class JsonFileMemory(Memory):
    """Keeps traced queries in one file of JSON; a file that can't be read or written costs time and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Any] = {}
        self._used: set[str] = set()
        self._has_news = False
        with suppress(OSError, ValueError):
            content = json.loads(path.read_text(encoding="utf-8"))
            self._known = content if isinstance(content, dict) else {}

    def key(self, *parts: object) -> str:
        """A hash of the version of this package, the texts, and what the queries read."""
        said = [__version__, *(_said(part) for part in parts)]
        return hashlib.sha256("\x1f".join(said).encode()).hexdigest()[:32]

    def recall(self, key: str) -> TracedRelation | None:
        """The result that was stored under a key, if it can be read."""
        try:
            traced = _from_plain(self._known[key])
        except (KeyError, TypeError, ValueError):
            return None
        self._used.add(key)
        return traced

    def keep(self, key: str, traced: TracedRelation) -> TracedRelation:
        """Store a result without an error; a query with an error is traced again next time."""
        if traced.trouble is None:
            self._known[key] = _to_plain(traced)
            self._used.add(key)
            self._has_news = True
        return traced

    def save(self) -> None:
        """Write the entries that this process has used; of several processes at once, one's file remains as a whole."""
        if not self._has_news:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps({key: self._known[key] for key in sorted(self._used)}), encoding="utf-8")
            draft.replace(self._path)


def _said(part: Any) -> str:
    if isinstance(part, list):
        return "\x1e".join(_described(relation) for relation in part)
    return str(getattr(part, "text", part))


_DESCRIPTIONS: Cache[RelationFacts, str] = Cache("descriptions of relations", weigh=lambda text: 2 * len(text))
_TYPES: Cache[str, DataType] = Cache("types of columns")


def _described(relation: RelationFacts) -> str:
    return _DESCRIPTIONS.find(relation, lambda: _describe(relation))


def _describe(relation: RelationFacts) -> str:
    columns = ", ".join(f"{field.name} {_written(field.type)}" for field in relation.fields)
    return f"{relation.kind} {relation.name} ({columns}) {relation.body or ''}"


def _to_plain(traced: TracedRelation) -> dict[str, Any]:
    split = traced.split
    return {
        "columns": [[column.name, _written(column.type)] for column in traced.columns],
        "lineage": {name: [list(origin) for origin in sorted(origins)] for name, origins in traced.lineage.items()},
        "split": None if split is None else [split.streams, split.below, split.above, split.drawn],
        "is_continuous": traced.is_continuous,
    }


def _from_plain(plain: dict[str, Any]) -> TracedRelation:
    split = plain["split"]
    return TracedRelation(
        columns=tuple(Output(name=name, type=_type(kind) if kind is not None else None) for name, kind in plain["columns"]),
        lineage={name: Origins(Origin(*origin) for origin in origins) for name, origins in plain["lineage"].items()},
        split=None if split is None else ShownSplit(streams=tuple(split[0]), below=tuple(split[1]), above=tuple(split[2]), drawn=split[3]),
        is_continuous=plain["is_continuous"],
    )


def _written(kind: DataType | None) -> str | None:
    return None if kind is None else type_text(kind)


def _type(text: str) -> DataType:
    return _TYPES.find(text, lambda: parse_type(text))
