"""`count_text`: a number with its noun, such as "3 rows", for messages."""

from __future__ import annotations


def count_text(number: int, noun: str, more: str = "") -> str:
    """A number with its noun; `more` is the plural where that is not the noun with an s, or where a verb belongs to it.

    >>> count_text(1, "file"), count_text(1234, "row"), count_text(1, "row waits", "rows wait")
    ('1 file', '1,234 rows', '1 row waits')
    """
    return f"{number:,} {noun if number == 1 else more or f'{noun}s'}"
