"""`format_of`: the format of a file's records (CSV, JSON, Parquet) by the ending of its name."""

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
    """A path or glob in lower case, without the ending of its compression.

    >>> uncompressed_name("s3://shop/Orders.TSV.gz")
    's3://shop/orders.tsv'
    """
    name = place.lower().rstrip("*")
    return next((name.removesuffix(ending) for ending in _COMPRESSED if name.endswith(ending)), name)


def format_of(place: str) -> FileFormat | None:
    """The format of the files at a path or glob; None where the ending does not say it.

    >>> format_of("inbox/*.jsonl.zst"), format_of("inbox/*")
    ('json', None)
    """
    name = uncompressed_name(place)
    return next((kind for ending, kind in _ENDINGS.items() if name.endswith(ending)), None)
