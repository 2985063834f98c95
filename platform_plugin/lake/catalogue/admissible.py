"""Checks of names, texts, columns and partitionings before a commit writes them into the catalogue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import PartitionKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Table

_SURROGATE = re.compile("[\ud800-\udfff]")


def check_name(kind: str, name: str) -> None:
    """Refuse a name that the catalogue or another client can't store."""
    check_text(f"the name of a {kind}", name)
    if not name or len(name.encode()) > 255:
        raise InvalidValue(f'"{name[:40]}" can\'t be the name of a {kind}', hint="names have 1 to 255 bytes")
    if kind == "column" and name.lower().startswith("_ducklake_internal_"):
        raise InvalidValue(f'column "{name}" has a name that DuckLake keeps for itself', hint="choose another name")


def check_text(what: str, *texts: str | None) -> None:
    """Refuse a text that one catalogue database can store and the other can't."""
    for text in texts:
        if text is not None and ("\0" in text or not (text.isascii() or _SURROGATE.search(text) is None)):
            raise InvalidValue(f"{ascii(text)[:40]} can't be {what}", hint="texts hold no zero characters and no halves of surrogate pairs")


def check_field(field: Field) -> None:
    """Refuse a column with a name or text, at any depth, that can't be stored."""
    for part in field.walk():
        check_name("column", part.name)
        check_text("the comment or default of a column", part.comment, part.default)


def partition_keys(table: Table, by: Sequence[tuple[str, str]]) -> tuple[PartitionKey, ...]:
    """The partition keys for pairs of a column and a transform."""
    keys = []
    for column, transform in by:
        field = table.field(column)
        if field is None or field.id is None:
            raise InvalidValue(f'column "{column}" does not exist in table "{table.name}"', hint="partition by one of its columns")
        if transform not in ("identity", "year", "month", "day", "hour"):
            raise InvalidValue(f'"{transform}" is not a partition transform', hint="write identity, year, month, day or hour")
        keys.append(PartitionKey(column_id=field.id, transform=transform))
    return tuple(keys)
