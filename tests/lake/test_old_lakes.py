"""Lakes that earlier versions made: read as they are at every snapshot, and then written, maintained, merged, expired and vacuumed.

What they must hold is told by plain counting when they are made, see `tests/lake/old`, and by DuckDB.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from platform_plugin.errors import CatalogueError, InvalidValue
from platform_plugin.maintenance.service import Maintainer
from platform_plugin.platform import Platform
from tests.lake.agreement import rows_of, theirs
from tests.lake.crashing import Victims
from tests.lake.old.make_lake import DRAWN, Maker, plain
from tests.lake.old_lakes import NAMES, dump, restore, unpack

TABLES = {"users", "payments", "clicks", "clicks_all", "logs", "visits", "mirror"}
DRAWN_BY_CHANCE = "2026-11-18-1805-1e5309d"
# What only Spark answers: deferred views, tables by a condition, and samples of views and by texts.
ON_SPARK = {"levels", "rich", "clicks_by_page", "some_totals"}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def old(request, name, tmp_path):
    """One of the corpus on each database."""
    unpacked = unpack(name, tmp_path / "old")
    return unpacked if request.param == "sqlite" else restore(unpacked, request.getfixturevalue("postgres_database"))


def test_the_corpus_has_lakes_of_many_versions():
    assert len(NAMES) >= 4


def test_its_tables_are_read_as_they_are_at_every_snapshot(old, duck):
    before = dump(old.url)
    with Platform.open(old.url) as platform:
        for version, relations in old.expected.items():
            snapshot = platform.lake.snapshot(version)
            for relation in TABLES & set(relations):
                rows = rows_of(platform.lake.read(relation, snapshot=snapshot))
                assert sorted(plain(row) for row in rows) == relations[relation], (relation, version)
        for statement in ("SHOW STREAMS", "SHOW VIEWS", "SHOW SNAPSHOTS"):
            assert list(platform.execute(statement))
        assert bool(list(platform.execute("SHOW SAMPLES"))) == bool(set(old.state["made"]) & set(DRAWN))
        for relation in set(old.state["made"]) - ON_SPARK:
            if relation in old.expected[max(old.expected)]:
                assert list(platform.execute(f"DESCRIBE EXTENDED {relation}"))
    assert dump(old.url) == before, "reading writes nothing"
    other = duck(old.url)
    for version, relations in old.expected.items():
        for relation in TABLES & set(relations):
            rows = theirs(other, relation, version=version)
            assert sorted(plain(row) for row in rows.elements()) == relations[relation], (relation, version)


def read_at(platform, relations, version):
    """The rows of many relations at a snapshot, in one query."""
    parts = [f"SELECT '{name}' AS of, to_json(struct(*)) AS row FROM {name} AT (VERSION => {version})" for name in relations]
    found = {name: [] for name in relations}
    for name, row in platform.execute(" UNION ALL ".join(parts)):
        found[name].append(plain(json.loads(row, parse_float=Decimal).values()))
    return {
        name: sorted(plain(Decimal(repr(v)) if isinstance(v, float) else v for v in row) for row in rows) for name, rows in found.items()
    }


def check_sample(name, rows, whole):
    """A sample has as many rows of its population as it may."""
    of, size = DRAWN[name]
    population = set(whole[of])
    if name == "newest_clicks":
        population = set(sorted(population)[-20:])
    width = len(next(iter(population), ()))
    assert {row[:width] for row in rows} <= population, name
    # Rows of no weight are never drawn, and each stratum has a share.
    assert len(rows) == min(size, len(population)) or (name in ("clicks_by_page", "dear_clicks") and len(rows) <= size), name


def check_views(old, versions):
    before = dump(old.url)
    with Platform.open(old.url) as platform:
        maker = Maker.resume(old.root, platform, old.state)
        for version in versions:
            views = {
                name: [plain(Decimal(repr(v)) if isinstance(v, float) else v for v in row) for row in rows]
                for name, rows in old.expected[version].items()
            }
            samples = set(old.state["made"]) & set(DRAWN) if old.name != DRAWN_BY_CHANCE else set()
            found = read_at(platform, [*views, *samples], version)
            assert {name: found[name] for name in views} == views, version
            # Round by round nine rows; the snapshots were told at the ends of rounds.
            ever = sum(n for _, n, _ in views["totals"])
            clicks = [plain(row) for row in maker.rows["clicks"]][: int(ever)]
            for sample in samples:
                check_sample(sample, found[sample], {**views, "ever clicks": clicks})
    assert dump(old.url) == before, "reading writes nothing"


@pytest.mark.spark
@pytest.mark.parametrize("old", ["sqlite"], indirect=True)
def test_its_views_and_samples_are_read_as_they_are(old):
    versions = sorted(old.expected)
    check_views(old, [versions[len(versions) // 2], versions[-1]])


@pytest.mark.slow
@pytest.mark.spark
def test_its_views_and_samples_are_read_as_they_are_at_every_snapshot(old):
    check_views(old, old.expected)


def kill_migrations(old, victims, *, step):
    """Let the first writer be killed at points; each time all of the migration is done, or nothing."""
    before = dump(old.url)
    points, kills = None, 0
    states = []
    for point in range(1, 10**6, step):
        told = victims.attempt(old.url, "migrate", kill_at=point)
        kills += told["killed"]
        states.append(dump(old.url))
        if not told["killed"] or states[-1] != before:
            points = point
            break
    assert kills > 3
    # What has begun to differ is whole: it is what a migration that nobody kills leaves, and a second one changes nothing.
    victims.attempt(old.url, "migrate")
    assert states[-1] == dump(old.url) != before
    assert all(state == before for state in states[:-1])
    with Platform.open(old.url) as platform:
        for relation, rows in old.expected[max(old.expected)].items():
            if relation in TABLES:
                assert sorted(plain(row) for row in rows_of(platform.lake.read(relation))) == rows, relation
        maker = Maker.resume(old.root, platform, old.state)
        if old.name == DRAWN_BY_CHANCE:
            drop_outdated(platform, maker)
        check(platform, maker, without=ON_SPARK)
    return points


@pytest.fixture(scope="module")
def victims():
    served = Victims()
    yield served
    served.stop()


@pytest.mark.parametrize("name", NAMES[-1:], indirect=True)
def test_a_first_writer_that_is_killed_has_migrated_all_or_nothing(old, victims):
    kill_migrations(old, victims, step=19)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_first_writer_may_be_killed_at_every_point(old, victims):
    print(f"all or nothing at {kill_migrations(old, victims, step=1)} points")


class Heard:
    """What maintenance says."""

    def __init__(self):
        self.failures = {}

    def maintained(self, done):
        self.failures |= done.failed

    def failed(self, error, pause_seconds):
        raise error


def maintain_all(platform):
    """One run for everything; the relations that failed."""
    heard = Heard()
    Maintainer(platform.work).run(heard, once=True)
    return heard.failures


def read(platform, relation):
    return sorted(plain(row) for row in platform.execute(f"SELECT * FROM {relation}"))


def check(platform, maker, *, without=frozenset()):
    """Everything holds what plain counting says."""
    told = {name: rows for name, rows in maker.tell().items() if name in {"users", "payments", *maker.made}}
    for relation in set(told) - without:
        assert read(platform, relation) == told[relation], relation
    clicks = [plain(row) for row in maker.rows["clicks"]]
    held = read(platform, "clicks")
    if "clicks_all" in maker.made:
        assert sorted(held + read(platform, "clicks_all")) == sorted(clicks)
    assert set(clicks[-30:]) <= set(held) <= set(clicks)
    whole = {**maker.tell(), "ever clicks": clicks}
    for sample in (maker.made & set(DRAWN)) - without:
        check_sample(sample, read(platform, sample), whole)


def drop_outdated(platform, maker):
    """The first samples were drawn in a way that can't be continued; everything else goes on beside them."""
    for sample in ("some_clicks", "clicks_by_page", "some_logs"):
        with pytest.raises(CatalogueError, match="can't be continued") as told:
            read(platform, sample)
        assert told.value.hint == "drop it and make it anew"
        platform.execute(f"DROP SAMPLE {sample}")
        maker.made.discard(sample)


def go_on(old, duck, *, without=frozenset()):
    """Write to it in every way; `without` Spark also without maintenance."""
    with Platform.open(old.url) as platform:
        maker = Maker.resume(old.root, platform, old.state)
        lake = platform.lake

        def maintain():
            if not without:
                assert maintain_all(platform) == {}

        def clean():
            lake.expire(datetime.now(UTC))
            lake.vacuum(grace=timedelta(0))

        def check_now():
            check(platform, maker, without=without)

        maker.add_rows()
        if old.name == DRAWN_BY_CHANCE:
            if not without:
                assert set(map(str, maintain_all(platform))) == {"main.some_clicks", "main.clicks_by_page", "main.some_logs"}
            drop_outdated(platform, maker)
        check_now()
        kept = lake.snapshot()
        users = rows_of(lake.read("users"))
        maintain()
        check_now()
        platform.execute("INSERT INTO users VALUES (20, 'US', 3)")
        maker.users[20] = ("US", Decimal(3))
        for sample in sorted((maker.made & set(DRAWN)) - without):
            platform.execute(f"REFRESH SAMPLE {sample}")
        for view in () if without else sorted(maker.made & {"totals", "pages", "levels"}):
            platform.execute(f"REFRESH VIEW {view}")
        check_now()
        for table in ("users", "logs", "clicks"):
            lake.merge(table)
        check_now()
        maker.add_rows()
        maintain()
        assert rows_of(lake.read("users", snapshot=kept)) == users
        clean()
        check_now()
        maker.add_rows()
        check_now()
        # What is dropped leaves nothing behind, and takes nothing that the rest needs.
        for sample in ("some_of_two", "newest_clicks", "some_totals"):
            platform.execute(f"DROP SAMPLE IF EXISTS {sample}")
            maker.made.discard(sample)
        for view in ("large", "regions", "levels"):
            platform.execute(f"DROP VIEW IF EXISTS {view}")
            maker.made.discard(view)
        check_now()
        clean()
        maker.add_rows()
        maintain()
        check_now()
        with pytest.raises(InvalidValue):
            platform.execute("DROP STREAM clicks")
    other = duck(old.url)
    for relation, rows in maker.tell().items():
        if relation in TABLES & {"users", "payments", *maker.made}:
            assert sorted(plain(row) for row in theirs(other, relation).elements()) == rows, relation


def test_it_is_written_to_by_this_version(old, duck):
    go_on(old, duck, without=ON_SPARK)


@pytest.mark.spark
@pytest.mark.parametrize("old", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", [NAMES[0], NAMES[len(NAMES) // 2], NAMES[-1]], indirect=True)
def test_it_is_maintained_by_this_version(old, duck):
    go_on(old, duck)


@pytest.mark.slow
@pytest.mark.spark
def test_each_is_maintained_by_this_version(old, duck):
    go_on(old, duck)
