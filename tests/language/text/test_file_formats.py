"""Formats by endings are the same for COPY, whichever way its path is given, and for feeds."""

import pytest

from platform_plugin.language.script import parse_statement
from platform_plugin.language.text.file_formats import format_of

PLACES = {
    "a.csv": "csv",
    "A.TSV": "csv",
    "s3://b/*.json.gz": "json",
    "a.jsonl.lz4": "json",
    "a.ndjson.deflate": "json",
    "a.parquet": "parquet",
    "a.pq": "parquet",
    "inbox/*.csv*": "csv",
    "a.csv.bz2": "csv",
    "a.txt": None,
    "inbox/*": None,
    "csv": None,
}


@pytest.mark.parametrize("place", PLACES)
def test_the_ending_says_the_format(place):
    assert format_of(place) == PLACES[place]
    assert parse_statement(f"COPY t FROM '{place}'").format == PLACES[place]
    assert parse_statement(f"COPY t FROM '{place}' (FORMAT json)").format == "json"
