"""Whatever stands where a URL or a path is taken, what comes back is an answer or an error of the platform's."""

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_plugin import Platform
from platform_plugin.engine.spark.server.attach import connect
from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.files.sources import make_absolute
from platform_plugin.lake.files.storage import Storage
from platform_plugin.relations.streams.feeds.file_listing import read_listing
from platform_plugin.relations.streams.feeds.ingest import run_ingest

SCHEMES = [
    "",
    "/",
    "~",
    "~nobody-is-called-so/",
    "file://",
    "file:",
    "s3://",
    "gs://",
    "memory://",
    "http://",
    "platform://",
    "platform+local://",
    "x+y://",
    "a::s3://",
    "zip://x::file://",
]
PIECES = st.sampled_from(
    [
        "[",
        "]",
        "[::1]",
        ":",
        "@",
        "/",
        "//",
        "..",
        "\\",
        "%",
        "%00",
        "%zz",
        "\0",
        " ",
        "?",
        "*",
        "**",
        "#",
        "&",
        "=",
        ";",
        "a",
        "host",
        "99999",
        ":99999",
        "-1",
        "é",
        "\ud800",
        "'",
        '"',
        "data=",
        "?data=",
        "{",
        "}",
        "~",
    ]
)
PLACES = st.tuples(st.sampled_from(SCHEMES), st.lists(PIECES, max_size=6).map("".join)).map("".join)


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    with Platform.create(tmp_path_factory.mktemp("urls") / "lake") as platform:
        platform.execute("CREATE TABLE t (a INT)")
        yield platform


@settings(max_examples=300)
@given(PLACES)
@example("s3://[bucket/x.csv")
@example("~nobody-is-called-so/x.csv")
@example("/data/\0.csv")
@example("platform+local:///tmp/\0")
@example("platform://u@host:99999/db?data=/x")
@example("platform://u@[host/db?data=/x")
@example("platform://u@host/db?data=s3://[x")
@example("platform+local:///tmp/x?spark=sc://[h")
def test_urls_of_lakes_and_places_are_read_or_refused(text):
    for read, kind in ((Location.parse, Location), (make_absolute, str)):
        with suppress(PlatformError):
            assert isinstance(read(text), kind)
    with suppress(PlatformError):
        where = Location.parse(f"platform://u@host/db?data={text}")
        Storage(where.data_path).absolute("main/x.parquet")


@pytest.mark.parametrize(
    "place",
    [
        "s3://[bucket/x.csv",
        "~nobody-is-called-so/x.csv",
        "/nowhere/\0.csv",
        "nobody://x/*.csv",
        "file://host/x.csv",
        "/nowhere/[**.csv",
        "/nowhere/a**b.csv",
        "memory://nowhere/**x/*.csv",
        "/nowhere/" + "a" * 5000 + ".csv",
        "zip://x::file://nowhere.csv",
        "/nowhere/\ud800.csv",
        "",
        " ",
    ],
)
def test_statements_with_places_answer_or_fail_as_errors_of_ours(platform, place):
    for statement in ("COPY t FROM :place (FORMAT csv)", "COPY t FROM :place"):
        with pytest.raises(PlatformError):
            platform.execute(statement, {"place": place})
    with suppress(PlatformError):
        platform.execute(f"CREATE OR REPLACE STREAM s (a INT) FROM FILES '{place}' (FORMAT csv, HEADER)")
        run_ingest(platform.work, "s")
    with suppress(PlatformError):
        assert read_listing(make_absolute(place)) == []


@pytest.mark.parametrize(
    "url", ["sc://h:99999999", "sc://[h", "sc://", "x", "sc://h:1:2", "sc://\0:1", "sc://" + "a" * 300 + ":1", "sc://é..é:1"]
)
def test_endpoints_are_reached_or_refused(url):
    with pytest.raises(PlatformError):
        connect(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "\0",
        "/\0",
        "platform+local://",
        "platform+local:///",
        "~nobody-is-called-so/lake",
        "/dev/null/lake",
        "/" + "a" * 5000,
        "memory://x",
        "platform+local:///tmp/\0",
        "platform+local:////tmp/~x/[",
        "platform://u@127.0.0.1:99999/db?data=/x",
        "file:///nowhere/lake",
    ],
)
def test_lakes_are_opened_or_refused(url):
    with pytest.raises(PlatformError):
        Platform.open(url)


def test_a_place_on_this_machine_keeps_all_of_its_name():
    assert make_absolute("file:///d/part?.csv#1") == "/d/part?.csv#1"
    assert make_absolute("file://localhost/d/x.csv") == "/d/x.csv"
    assert make_absolute("/d/token=5/x.csv") == "/d/token=5/x.csv"
