"""`text_options`: options of COPY and feeds for text files, under the names that Spark's readers give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {
    "delimiter": "sep",
    "null": "nullValue",
    "quote": "quote",
    "escape": "escape",
    "encoding": "encoding",
    "date_format": "dateFormat",
    "timestamp_format": "timestampFormat",
    "multiline": "multiLine",
    "compression": "compression",
    "header": "header",
}


def text_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Spark's options for those of a statement's options that describe the format of text.

    >>> text_options({"delimiter": ";", "header": True, "format": "csv", "quote": None})
    {'sep': ';', 'header': 'true'}
    """
    return {
        _NAMES[name]: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if name in _NAMES and value is not None
    }
