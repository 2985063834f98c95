"""Counting: a number of things in a sentence."""

from __future__ import annotations


def counted(number: int, noun: str, more: str = "") -> str:
    """A number of things to be read; `more` is their plural where that is not the noun with an s, such as one with its verb.

    >>> counted(1, "file"), counted(1234, "row"), counted(1, "row waits", "rows wait")
    ('1 file', '1,234 rows', '1 row waits')
    """
    return f"{number:,} {noun if number == 1 else more or f'{noun}s'}"
