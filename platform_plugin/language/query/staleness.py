"""`read_duration`: the staleness of AT (STALENESS => …) as a duration."""

from __future__ import annotations

from datetime import timedelta

from platform_plugin.errors import InvalidValue
from platform_plugin.language.text.options import parse_duration


def read_duration(value: object) -> timedelta:
    """The duration that a text or a Python value stands for.

    >>> read_duration("5 seconds")
    datetime.timedelta(seconds=5)
    """
    found = value if isinstance(value, timedelta) else parse_duration(value) if isinstance(value, str) else None
    if found is None or found < timedelta(0):
        raise InvalidValue(f"{value!r} is not a duration", hint="write AT (STALENESS => '5 seconds')")
    return found
