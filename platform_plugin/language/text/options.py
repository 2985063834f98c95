"""Options in WITH, OPTIONS and COPY lists: the names that each statement knows, and the readers of their values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from platform_plugin.language.text.places import Span, suggest_word
from platform_plugin.language.text.tokens import DOUBLE, NUMBER, STRING, WORD
from platform_plugin.language.text.values import number_value, string_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.language.text.cursor import TokenCursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One `name = value` of a WITH, OPTIONS or COPY list."""

    name: str
    value: str | int | float | bool | timedelta | None
    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))


ENGINES = ("auto", "local", "executors", "spark_sql")
"""The engines that a user may ask for."""
STREAM: dict[str, str | tuple[str, ...]] = {
    "retention_rows": "count",
    "retention": "duration",
    "retention_bytes": "size",
    "on_overrun": ("abort", "block"),
    "overrun_grace": "duration",
    "on_unconsumed": ("keep", "drop"),
    "suite": "text",
}
TABLE: dict[str, str | tuple[str, ...]] = {
    "target_file_size": "positive size",
    "parquet_compression": ("snappy", "zstd", "gzip", "lz4", "uncompressed"),
    "parquet_row_group_size": "positive count",
    "on_unconsumed": ("keep", "drop"),
    "suite": "text",
}
VIEW: dict[str, str | tuple[str, ...]] = {
    "target_lag": "duration",
    "maintenance": ("split", "deferred", "eager", "batch"),
    "start": ("now", "earliest"),
    "on_table_change": ("pin", "refuse"),
    "batch_rows": "count",
    "engine": ENGINES,
    "suite": "text",
}
SAMPLE: dict[str, str | tuple[str, ...]] = {
    "window": "text",
    "seed": "seed",
    "half_life": "duration",
    "time_column": "text",
    "engine": ENGINES,
}
RUN: dict[str, str | tuple[str, ...]] = {"engine": ENGINES}
"""The options of REFRESH."""
COPY: dict[str, str | tuple[str, ...]] = {
    "format": ("csv", "json", "parquet"),
    "header": "boolean",
    "delimiter": "text",
    "null": "text",
    "quote": "text",
    "escape": "text",
    "encoding": "text",
    "date_format": "text",
    "timestamp_format": "text",
    "multiline": "boolean",
    "ignore_errors": "boolean",
    "compression": ("none", "gzip", "bzip2", "zstd", "snappy", "lz4", "deflate"),
}
_RECORDS = {
    name: takes for name, takes in COPY.items() if name in ("delimiter", "null", "quote", "escape", "date_format", "timestamp_format")
}
# What a feed from each kind of source knows. A feed never leaves bad records out, so `ignore_errors` is not among it.
FEEDS: dict[str, dict[str, str | tuple[str, ...]]] = {
    "FILES": {name: takes for name, takes in COPY.items() if name != "ignore_errors"}
    | {
        "format": ("csv", "json", "parquet", "avro"),
        "on_malformed": ("quarantine", "fail"),
        "extra_fields": ("ignore", "quarantine"),
        "on_change": ("report", "fail"),
        "settle": "duration",
        "ordered_by": ("name", "time"),
        "remember": "duration",
        "max_files": "count",
        "max_bytes": "size",
    },
    "KAFKA": _RECORDS
    | {
        "format": ("json", "csv", "avro"),
        "on_malformed": ("quarantine", "fail"),
        "extra_fields": ("ignore", "quarantine"),
        "on_gap": ("fail", "skip"),
        "start": ("earliest", "latest"),
        "max_rows": "count",
    },
    "TABLE": {"start": ("earliest", "latest"), "changes": "boolean", "max_files": "count", "max_bytes": "size"},
}
_FLAGS = ("header", "multiline", "ignore_errors")

_MICROSECONDS = {"microsecond": 1, "us": 1, "millisecond": 1000, "ms": 1000, "second": 10**6, "sec": 10**6, "s": 10**6}
_MICROSECONDS |= {"minute": 60 * 10**6, "min": 60 * 10**6, "m": 60 * 10**6, "hour": 3600 * 10**6, "h": 3600 * 10**6}
_MICROSECONDS |= {"day": 86400 * 10**6, "d": 86400 * 10**6, "week": 7 * 86400 * 10**6}
_SIZES = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}


def read_options(cursor: TokenCursor, known: Mapping[str, str | tuple[str, ...]], what: str) -> tuple[Option, ...]:
    """A list `(name = value, …)`; the `=` may be missing, as in COPY and SQL/MED."""
    options: dict[str, Option] = {}

    def read() -> None:
        first = cursor.index
        name = cursor.identifier("an option") if cursor.kind() in (WORD, DOUBLE, "quoted") else cursor.string("an option")
        key = name.lower()
        if key not in known or key in options:
            cursor.index = first
            message = f'{what} has no option "{name[:40]}"' if key not in known else f'option "{key}" is given twice'
            raise cursor.fail(message=message, hint=suggest_word(key, known) or f"its options are {', '.join(known)}")
        explicit = cursor.accept("=")
        if key in _FLAGS and not explicit and cursor.upper() in (",", ")"):
            options[key] = Option(name=key, value=True, span=cursor.span(first))
            return
        value = _read_value(cursor, key, known[key])
        options[key] = Option(name=key, value=value, span=cursor.span(first))

    cursor.listed(read)
    return tuple(options.values())


def _read_value(cursor: TokenCursor, name: str, takes: str | tuple[str, ...]) -> str | int | float | bool | timedelta | None:
    first, text = cursor.index, _raw(cursor, takes)
    value: str | int | float | bool | timedelta | None = None
    if isinstance(takes, tuple):
        value = text.lower() if text.lower() in takes else None
        expected = " or ".join(f"'{word}'" for word in takes)
    elif takes == "boolean":
        value = {"true": True, "false": False, "1": True, "0": False, "on": True, "off": False}.get(text.lower())
        expected = "true or false"
    elif takes.startswith("positive "):
        most = parse_size(text) if takes.endswith("size") else int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None
        value, expected = most or None, "a size above nothing" if takes.endswith("size") else "a whole number above 0"
    elif takes in ("count", "seed"):
        # The lake itself chooses seeds of up to nineteen digits.
        value = int(text) if re.fullmatch(r"[0-9]{1,18}" if takes == "count" else r"[0-9]{1,19}", text) else None
        expected = "a whole number"
    elif takes == "duration":
        value = parse_duration(text)
        expected = "a duration such as '5 seconds' or '1 hour'"
    elif takes == "size":
        value = parse_size(text)
        expected = "a size such as '512 MB' or a number of bytes"
    else:
        value, expected = text, "a string"
    if value is None:
        cursor.index = first
        hint = suggest_word(text, takes) if isinstance(takes, tuple) else None
        raise cursor.fail(expected, message=f'option "{name}" can\'t be {text[:40]!r}', hint=hint)
    return value


def _raw(cursor: TokenCursor, takes: str | tuple[str, ...]) -> str:
    if takes == "duration" and cursor.accept("INTERVAL"):
        amount = cursor.string("an amount") if cursor.kind() == STRING else str(cursor.integer("an amount"))
        return f"{amount} {cursor.identifier('a unit')}" if cursor.kind() == WORD else amount
    kind = cursor.kind()
    if kind == STRING:
        return string_value(cursor.tokens.text(cursor.advance()))
    if kind == NUMBER:
        text = cursor.tokens.text(cursor.advance())
        return str(number_value(text)[1])
    if kind == WORD:
        return cursor.identifier()
    raise cursor.fail("a value")


def parse_duration(text: str) -> timedelta | None:
    """The duration that a text such as '1 hour 30 minutes' or '500ms' stands for; None for any other text and for zero.

    >>> parse_duration("1 hour 30 min"), parse_duration("soon")
    (datetime.timedelta(seconds=5400), None)
    """
    if not re.fullmatch(r"\s*(\d{1,15}(\.\d{1,9})?\s*[a-zA-Z]+\s*,?\s*)+", text) or len(text) > 200:
        return None
    total = Fraction(0)
    for amount, unit in re.findall(r"([\d.]+)\s*([a-zA-Z]+)", text):
        word = unit.lower()
        scale = _MICROSECONDS.get(word) or _MICROSECONDS.get(word.removesuffix("s"))
        if scale is None:
            return None
        total += Fraction(amount) * scale
    try:
        return timedelta(microseconds=round(total)) or None
    except OverflowError:
        return None


def parse_size(text: str) -> int | None:
    """The bytes a text such as '512 MB' stands for, or None.

    >>> parse_size("1.5 KiB"), parse_size("1000")
    (1536, 1000)
    """
    found = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([a-zA-Z]*)\s*", text)
    scale = found and _SIZES.get(found[2].lower())
    return round(Fraction(found[1]) * scale) if found and scale else None
