"""What is remembered of files: as much as is needed that none is read twice and none is lost, and no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.errors import CommitConflict, InvalidValue
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds.declaration import FilesFeed
from platform_plugin.relations.streams.feeds.file_folding import find_fold
from platform_plugin.relations.streams.feeds.file_listing import plan_batch
from platform_plugin.relations.streams.feeds.sources import (
    LATE,
    READ,
    SOURCE_FILE,
    SOURCE_FOLD,
    RecordFiles,
    SourceFile,
    prepare_file_sources,
    read_known_files,
    read_marks,
)

FEED = FilesFeed(glob="*.csv", format="csv", ordered_by="name", remember=timedelta(days=7))
DAY = timedelta(days=1)


@pytest.fixture
def platform(lake_url):
    with Platform.create(lake_url) as made:
        yield made


class Ingester:
    """What an ingester does about files, without reading any."""

    def __init__(self, lake, feed=FEED):
        self.lake, self.feed = lake, feed
        self.now = datetime.now(UTC)
        self.table = lake.table("s")
        prepare_file_sources(lake)

    def plan(self, listing, max_files=3):
        with self.lake.reading() as connection:
            uuid = self.table.uuid
            known, marks = read_known_files(connection, uuid, listing), read_marks(connection, uuid)
            batch = plan_batch(listing, known, max_files=max_files, max_bytes=1000, marks=marks)
            unread = (*batch.files, *batch.waiting, *batch.settling, *batch.empty)
            return batch, find_fold(connection, uuid, self.feed, listing, unread=unread, now=self.now)

    def commit(self, planned):
        batch, fold = planned
        if not batch.files and not batch.late:
            return batch
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("platform_plugin.lake.commit.commit.datetime", Stopped(self.now))
            with self.lake.commit("ingest") as commit:
                commit.also(RecordFiles(str(self.table.uuid), batch.files, READ))
                commit.also(RecordFiles(str(self.table.uuid), batch.late, LATE))
                if fold is not None:
                    commit.also(fold)
        return batch

    def look(self, listing, **limits):
        return self.commit(self.plan(listing, **limits))

    def remembered(self):
        with self.lake.reading() as connection:
            return sorted(connection.execute(sa.select(SOURCE_FILE.c.uri)).scalars())


class Stopped(datetime):
    """The time of the lake, as the test has it."""

    def __new__(cls, now):
        made = super().__new__(cls, 2026, 1, 1)
        made.moment = now
        return made

    def now(self, _):
        return self.moment


def file(name, modified=None, version="1"):
    return SourceFile(uri=name, size_bytes=1, version=version, modified=modified)


def create(platform):
    platform.execute("CREATE STREAM s (id INT)")
    return platform.lake


def test_what_is_gone_for_longer_than_the_bound_is_a_mark(platform):
    ingester = Ingester(create(platform))
    for day in range(30):
        ingester.look([file(f"{day - back:04}") for back in range(3) if day >= back])
        ingester.now += DAY
    assert len(ingester.remembered()) <= 9
    assert ingester.look([file("0001")]).late == (file("0001"),), "it was read, and nobody can tell"
    told = ingester.look([file("0001"), file("0030")])
    assert (told.late, told.files) == ((), (file("0030"),)), "told once"
    with platform.lake.reading() as connection:
        folded, mark = connection.execute(sa.select(SOURCE_FOLD.c.folded_count, SOURCE_FOLD.c.name_mark)).one()
        assert (folded >= 20, mark < "0025") == (True, True)


def test_without_an_order_files_are_remembered_for_ever_and_a_look_costs_what_is_listed(platform):
    ingester = Ingester(create(platform), replace(FEED, ordered_by=None))
    ingester.look([file(f"{number:04}") for number in range(50)], max_files=100)
    ingester.now += 100 * DAY
    ingester.look([file("9999")])
    assert len(ingester.remembered()) == 51
    with platform.lake.reading() as connection:
        assert set(read_known_files(connection, ingester.table.uuid, [file("0007"), file("other")])) == {"0007"}


def test_what_is_out_of_line_holds_the_mark_back(platform):
    by_time = replace(FEED, ordered_by="time")
    ingester = Ingester(create(platform), by_time)
    # A clock that was ahead by years, and one that was never set.
    ingester.look([file("ahead", 9e9), file("unset", 0.0), file("a", 100.0)])
    for day in range(1, 30):
        ingester.now += DAY
        assert ingester.look([file(f"b{day}", 100.0 + day)]).files, "none is lost"
    assert "ahead" in ingester.remembered()
    assert "a" not in ingester.remembered()
    assert ingester.look([file("ahead", 9e9), file("a", 100.0)]).files == (), "none is read twice"


def test_a_file_that_another_ingester_read_and_folded_is_not_read(platform):
    lake = create(platform)
    slow, quick = Ingester(lake), Ingester(lake)
    planned = slow.plan([file("1")])
    quick.look([file("1")])
    quick.now += 10 * DAY
    quick.look([file("2")])
    quick.now += 10 * DAY
    quick.look([file("3")])
    assert "1" not in quick.remembered()
    with pytest.raises(CommitConflict, match='file "1" was ingested by another process'):
        slow.commit(planned)


def test_lakes_of_earlier_versions_are_migrated(platform):
    lake = create(platform)
    old = sa.Table(SOURCE_FILE.name, sa.MetaData(), *(c._copy() for c in SOURCE_FILE.c if c.name not in ("read_at", "modified")))
    with lake.writing() as connection:
        for table in (SOURCE_FILE, SOURCE_FOLD):
            table.drop(connection, checkfirst=True)
        old.create(connection)
        values = {"relation_uuid": str(lake.table("s").uuid), "size_bytes": 1, "version": "1", "state": "read", "snapshot_id": 1}
        connection.execute(sa.insert(old), [{"uri": f"{number}", **values} for number in range(5)])
    with lake.reading() as connection:
        assert len(read_known_files(connection, lake.table("s").uuid, [file("1"), file("7")])) == 1, "a sensor looks before anybody writes"
    for _ in range(2):
        prepare_file_sources(lake)
    ingester = Ingester(lake)
    assert ingester.look([file("3"), file("7")]).files == (file("7"),)
    assert len(ingester.remembered()) == 6
    ingester.now += 8 * DAY
    ingester.look([file("3"), file("8")])
    assert ingester.remembered() == ["3", "8"]
    assert ingester.look([file("4")]).late == (file("4"),)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.sampled_from(["new", "new", "gone", "again", "clock", "killed"]), min_size=12, max_size=24),
    ordered_by=st.sampled_from(["name", "time"]),
    max_files=st.integers(1, 2),
)
def test_each_file_is_read_once_whatever_happens(tmp_path_factory, steps, ordered_by, max_files):
    with Platform.create(tmp_path_factory.mktemp("feed") / "lake") as platform:
        ingester = Ingester(create(platform), replace(FEED, ordered_by=ordered_by))
        folder: dict[str, SourceFile] = {}
        gone: list[SourceFile] = []
        read: list[str] = []
        every = 0
        for step in [*steps, *["look"] * 20]:
            ingester.now += 4 * DAY
            match step:
                case "new":
                    for _ in range(2):
                        made = file(f"{every:05}", 1000.0 + every)
                        folder[made.uri], every = made, every + 1
                case "gone":
                    gone += [folder.pop(uri) for uri in read if uri in folder]
                case "again" if gone:
                    folder |= {back.uri: back for back in gone}
                    gone.clear()
                case "clock":
                    ingester.now -= 40 * DAY
                case "killed":
                    ingester.plan(list(folder.values()), max_files=max_files)
                    continue
            read += [found.uri for found in ingester.look(list(folder.values()), max_files=max_files).files]
        assert sorted(read) == [f"{number:05}" for number in range(every)]


def test_how_long_files_are_remembered_needs_an_order(platform, tmp_path):
    with pytest.raises(InvalidValue, match="remembered for ever"):
        platform.execute(f"CREATE STREAM t (id INT) FROM FILES '{tmp_path}/*.csv' (remember '2 days')")
    platform.execute(f"CREATE STREAM t (id INT) FROM FILES '{tmp_path}/*.csv' (ordered_by 'name', remember '2 days')")
    (said,) = platform.execute("SHOW CREATE STREAM t").arrow().column(0).to_pylist()
    assert "ordered_by = 'name', remember = '2 days'" in said
