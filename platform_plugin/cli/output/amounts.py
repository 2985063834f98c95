"""Durations and sizes as people write and read them."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta


def parse_duration_amount(text: str) -> timedelta:
    """A duration such as `7d`, `90s` or `1 hour`; a bare number is seconds.

    >>> parse_duration_amount("7d"), parse_duration_amount("0"), parse_duration_amount("1.5")
    (datetime.timedelta(days=7), datetime.timedelta(0), datetime.timedelta(seconds=1, microseconds=500000))
    """
    if re.fullmatch(r"\s*0+(\.0*)?\s*[a-zA-Z]*\s*", text):
        return timedelta(0)
    from platform_plugin.language.text.options import parse_duration

    found = parse_duration(f"{text} s" if re.fullmatch(r"\s*[\d.]+\s*", text) else text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 30s, 10 min, 12h or 7d")
    return found


def parse_age(text: str) -> timedelta:
    """An age such as `7d`, which must have a unit: a bare 7 may mean days, and what is forgotten doesn't come back.

    >>> parse_age("12h")
    datetime.timedelta(seconds=43200)
    """
    found = parse_grace(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is the age of everything; --all says that")
    return found


def parse_grace(text: str) -> timedelta:
    """A duration with its unit, or 0.

    >>> parse_grace("0"), parse_grace("1d")
    (datetime.timedelta(0), datetime.timedelta(days=1))
    """
    found = parse_duration_amount(text)
    number = text.strip()
    if found and re.fullmatch(r"[\d.]+", number):
        raise argparse.ArgumentTypeError(f"{text!r} has no unit; write {number}d for days, or {number}h, {number}min, {number}s")
    return found


def parse_size_amount(text: str) -> int:
    """Bytes of a size such as `4g`, `512 MB` or `1.5 GiB`; one letter means the binary unit, as in Spark.

    >>> parse_size_amount("4g") == parse_size_amount("4 GiB") == 4 << 30
    True
    """
    from platform_plugin.language.text.options import parse_size

    letter = re.fullmatch(r"\s*([\d.]+)\s*([kmgtKMGT])\s*", text)
    found = parse_size(f"{letter[1]} {letter[2]}ib" if letter else text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4g or 512 MiB")
    return found


def byte_text(count: float) -> str:
    """A number of bytes as text.

    >>> byte_text(999), byte_text(123_456_789)
    ('999 B', '123.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def seconds_text(seconds: float) -> str:
    """A duration as text.

    >>> seconds_text(0.0123), seconds_text(75), seconds_text(200_000)
    ('0.01 s', '1 min 15 s', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    parts = [(days, "d"), (hours_left, "h"), (minutes_left, "min"), (rest, "s")]
    first = next(index for index, (amount, _) in enumerate(parts) if amount)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount)
