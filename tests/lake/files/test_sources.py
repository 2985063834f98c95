"""Where COPY and feeds may read: below the folders that were named, whatever a path, a glob or a link says."""

import pytest

from platform_plugin.errors import InvalidValue, PathOutsideLake, PlatformError
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.files.sources import SOURCES_VARIABLE, Sources
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.file_listing import read_listing
from platform_plugin.relations.streams.feeds.ingest import run_ingest


@pytest.fixture
def folders(tmp_path):
    """A folder that may be read, and one beside it with a secret that links of every kind lead to."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in_too").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    (tmp_path / "out" / "secret.csv").write_text("666\n")
    (tmp_path / "in_too" / "secret.csv").write_text("666\n")
    return tmp_path


@pytest.mark.parametrize(
    ("root", "place", "is_permitted"),
    [
        ("s3://bucket/in", "s3://bucket/in/x.csv", True),
        ("s3://bucket/in/", "s3a://bucket/in", True),
        ("s3://bucket/in", "s3://bucket/in/*/x.csv", True),
        ("s3://bucket", "s3://bucket/any*/x.csv", True),
        ("s3:", "s3://any/x.csv", True),
        ("s3://bucket/in", "s3://bucket/in_too/x.csv", False),
        ("s3://bucket/in", "s3://bucket/in*/x.csv", False),
        ("s3://bucket/in", "s3://bucket/{in,out}/x.csv", False),
        ("s3://bucket/in", "s3://bucket/in/../out/x.csv", False),
        ("s3://bucket/in", "s3://bucket/in/{a,../../out}/x.csv", False),
        ("s3://bucket/in", "gs://bucket/in/x.csv", False),
        ("s3://bucket/in", "simplecache::s3://bucket/in/x.csv", False),
        ("s3://bucket/in", "/bucket/in/x.csv", False),
        ("/", "s3://bucket/in/x.csv", False),
        ("file:", "/any/x.csv", True),
        ("kafka:", "kafka://one:9092", True),
        ("kafka://one:9092", "kafka://one:90921", False),
    ],
)
def test_what_is_below_a_source(root, place, is_permitted):
    assert Sources(lists=((root,),)).permits(place) == is_permitted
    assert Sources(lists=((root,), ("file:///nowhere", "/nowhere"))).permits(place) is False
    assert Sources().permits(place)


def test_links_and_dots_do_not_lead_out(folders):
    sources = Sources(lists=((str(folders / "in"),),))
    (folders / "in" / "file.csv").symlink_to(folders / "out" / "secret.csv")
    (folders / "in" / "deep" / "folder").symlink_to(folders / "out")
    (folders / "entry").symlink_to(folders / "in")
    assert sources.permits(f"{folders}/in/*.csv")
    assert sources.permits(f"{folders}/entry/a.csv")
    for place in ("in/file.csv", "in/deep/folder/secret.csv", "in/../out/secret.csv", "in_too/*.csv", "in*/*.csv", "out/secret.csv", "*"):
        assert not sources.permits(f"{folders}/{place}"), place
    # What a pattern matches is looked at one by one: by the listing of feeds, and before Spark is given a COPY's.
    for read in (lambda place: read_listing(place, sources), sources.confined):
        with pytest.raises(PathOutsideLake):
            read(f"{folders}/in/*.csv")
    with pytest.raises(PathOutsideLake):
        sources.confined(f"{folders}/in/*/*/*.csv")
    (folders / "in" / "file.csv").unlink()
    (folders / "in" / "deep" / "folder").unlink()
    assert sources.confined(f"{folders}/entry/*.csv") == f"{folders}/in/*.csv"
    assert [file.uri for file in read_listing(f"{folders}/entry/*.csv", sources)] == [f"{folders}/entry/a.csv"]


def test_the_environment_can_not_be_widened_by_a_url(folders):
    given = {SOURCES_VARIABLE: f"{folders}/in, s3:"}
    wide = Sources.of((f"{folders}/in", f"{folders}/out"), given)
    assert wide.permits(f"{folders}/in/a.csv")
    assert not wide.permits(f"{folders}/out/secret.csv")
    assert not wide.permits("s3://bucket/x")
    assert not Sources.of(None, {SOURCES_VARIABLE: ""}).permits("/any")
    assert not Sources.of((), {}).permits("/any")
    assert Sources.of(None, {}) == Sources()
    with pytest.raises(InvalidValue, match="no folder and no scheme"):
        Sources.of(("in",), {})


def test_the_option_of_a_url():
    where = Location.parse("platform+local:///srv/lake?sources=/in,s3://bucket/x&outside=/more")
    assert where.sources == ("/in", "s3://bucket/x")
    assert Location.parse(str(where)).sources == where.sources
    shared = Location.parse("platform://u@h/d?data=/d&sources=/in&sources=/too")
    assert shared.sources == Location.parse(str(shared)).sources == ("/in", "/too")
    assert Location.parse("platform+local:///srv/lake").sources is None
    for url in ("platform+local:///srv/lake?sources=", "platform://u@h/d?sources=&data=/d"):
        with pytest.raises(InvalidValue, match="sources"):
            Location.parse(url)


def test_statements_are_refused_where_they_name_the_place(folders, monkeypatch):
    monkeypatch.setenv(SOURCES_VARIABLE, f"{folders}/in")
    (folders / "in" / "link.parquet").symlink_to(folders / "out" / "secret.csv")
    with Platform.create(folders / "lake") as platform:
        platform.execute("CREATE TABLE t (a INT)")
        for statement in (
            f"COPY t FROM '{folders}/out/secret.csv'",
            f"COPY t FROM '{folders}/in/../out/*.csv'",
            f"COPY t FROM '{folders}/in/*.parquet'",
            "COPY t FROM 'http://127.0.0.1/x.csv'",
            f"CREATE STREAM s (a INT) FROM FILES '{folders}/out/*.csv'",
            f"CREATE STREAM s FROM FILES '{folders}/in/*.parquet'",
            "CREATE STREAM s (a INT) FROM KAFKA 'one:9092/t'",
        ):
            with pytest.raises(PathOutsideLake) as caught:
                platform.execute(statement)
            assert caught.value.column == (1 if statement.startswith("COPY") else statement.index("'") + 1)
        assert [table.name.relation for table in platform.lake.tables()] == ["t"]


def test_feeds_from_before_are_confined_as_well(folders, monkeypatch):
    with Platform.create(folders / "lake") as platform:
        platform.execute(f"CREATE STREAM s (a INT) FROM FILES '{folders}/out/*.csv'")
        platform.execute("CREATE STREAM k (a INT) FROM KAFKA '127.0.0.1:1/t'")
    with Platform.open(f"platform+local://{folders}/lake?sources={folders}/in") as platform:
        for stream in ("s", "k"):
            with pytest.raises(PathOutsideLake):
                run_ingest(platform.work, stream)


@pytest.mark.spark
def test_what_is_permitted_is_read_by_spark(folders, monkeypatch):
    (folders / "entry").symlink_to(folders / "in")
    with Platform.create(f"platform+local://{folders}/lake?sources={folders}/in") as platform:
        platform.execute("CREATE TABLE t (a INT)")
        assert platform.execute(f"COPY t FROM '{folders}/entry/*.csv'").row_count == 1
        platform.execute(f"CREATE STREAM s (a INT) FROM FILES '{folders}/entry/*.csv'")
        assert run_ingest(platform.work, "s").rows == 1
        (folders / "in" / "b.csv").symlink_to(folders / "out" / "secret.csv")
        with pytest.raises(PlatformError, match="not among the sources"):
            platform.execute(f"COPY t FROM '{folders}/in'  (FORMAT csv)")
        with pytest.raises(PlatformError, match="not among the sources"):
            run_ingest(platform.work, "s")
