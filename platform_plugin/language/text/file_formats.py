"""File formats: how the records of a file are written, as the ending of its name says it."""

from __future__ import annotations

from typing import Literal

FileFormat = Literal["csv", "json", "parquet"]

_ENDINGS: dict[str, FileFormat] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")


def uncompressed_name(place: str) -> str:
    """A path or glob in lower case, without the ending that says how it is compressed.

    >>> uncompressed_name("s3://shop/Orders.TSV.gz")
    's3://shop/orders.tsv'
    """
    name = place.lower().rstrip("*")
    return next((name.removesuffix(ending) for ending in _COMPRESSED if name.endswith(ending)), name)


def format_of(place: str) -> FileFormat | None:
    """The format of the files at a path or glob; None where their name does not say it.

    >>> format_of("inbox/*.jsonl.zst"), format_of("inbox/*")
    ('json', None)
    """
    name = uncompressed_name(place)
    return next((kind for ending, kind in _ENDINGS.items() if name.endswith(ending)), None)
