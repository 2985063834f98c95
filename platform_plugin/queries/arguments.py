"""Arguments: the values that a caller binds, as plain Python values that every later step understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from platform_plugin.errors import InvalidValue, WrongArguments

_PLAIN = (bool, int, float, Decimal, date, time, timedelta, UUID)


def plain(value: Any, name: str) -> Any:
    """The plain value behind what a caller gave: NumPy's and Arrow's values become Python's own, views of bytes become bytes.

    >>> plain((1, bytearray(b"x")), ":a")
    [1, b'x']
    """
    # NumPy's own numbers are subclasses of Python's in part, so they are asked for first.
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return plain(value.astype("datetime64[us]").tolist() if value.dtype.kind == "M" else value.tolist(), name)
    if hasattr(value, "as_py"):
        return plain(value.as_py(), name)
    match value:
        case None:
            return None
        case str():
            return _text(value, name)
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case list() | tuple():
            return [plain(part, name) for part in value]
        case Mapping():
            return {plain(key, name): plain(part, name) for key, part in value.items()}
        case _ if isinstance(value, _PLAIN):
            return value
    raise InvalidValue(
        f'parameter "{name}" has a value of type {type(value).__name__}',
        hint="give numbers, texts, bytes, dates and times, UUIDs, lists or dicts of these, or None",
    )


def _text(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(f'parameter "{name}" is a text with half a character', detail=str(error), hint="decode it anew") from error
    return value


def plan_given(given: object) -> Mapping[str, Any] | tuple[Any, ...]:
    """What a caller gave as parameters: a dict by name or a sequence by place, of plain values."""
    match given:
        case None:
            return ()
        case Mapping():
            if wrong := [name for name in given if not isinstance(name, str)]:
                raise WrongArguments(f"{wrong[0]!r} is no name of a parameter", hint="give a dict from names to values")
            return {name: plain(value, name) for name, value in given.items()}
        case str() | bytes() | bytearray() | memoryview():
            raise WrongArguments("parameters are one text", hint="give a list with a value for each ?, or a dict for :name")
        case Sequence():
            return tuple(plain(value, str(place)) for place, value in enumerate(given, start=1))
    raise WrongArguments(f"parameters are of type {type(given).__name__}", hint="give a list with a value for each ?, or a dict for :name")
