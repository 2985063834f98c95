import json
import subprocess
import sys
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.stalls import note_stall
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.lake import Lake
from platform_plugin.select import overview
from tests.cli.conftest import ROOT


def test_both_ways_to_the_catalogue_say_the_same(lake):
    with Lake.open(lake) as opened, opened.lease():
        fast, slow = overview._read_local(lake), overview._read_any(lake)
    assert fast == slow
    assert fast.leases == 1
    assert [(r.name, r.kind, r.rows, r.files) for r in fast.relations] == [
        ("posts", "stream", 0, 0),
        ("users", "table", 4, 2),
        ("rich", "view", None, None),
    ]


def test_status_says_what_is_stalled(lake, platform):
    with Lake.open(lake) as opened:
        with opened.gates.guarding(Name.of("users"), lambda *_: None), opened.commit("put") as commit:
            old = [file.id for file in opened.scan(opened.table("users"), opened.snapshot()).files]
            commit.replace(opened.table("users"), old, [])
        error = InvalidValue("no", detail="row 3\nrow 4", hint="mend it")
        note_stall(opened, Name.of("users"), cause="gate", error=error, suite="s.yml", row_count=4)
        note_stall(opened, Name.of("rich"), cause="maintenance", error=error)
        passed = opened.snapshot().id
    fast, slow = overview._read_local(lake), overview._read_any(lake)
    assert fast == slow
    assert [(each.name, each.cause, each.passed) for each in fast.stalls] == [("rich", "maintenance", None), ("users", "gate", passed)]
    said = platform("status", check=0).stdout
    assert "main.rich is stalled: maintenance has stopped since" in said
    assert "  reason: no: row 3\n  row 4\n  readable: snapshot 6 has the version that passed last" in said
    told = json.loads(platform("status", "--json", check=0).stdout)["lake"]["stalls"]
    assert [(each["name"], each["suite"], each["row_count"]) for each in told] == [("rich", None, None), ("users", "s.yml", 4)]
    assert "main.users is stalled" in platform("sql", "-c", "DESCRIBE users", check=0).stdout
    assert "main.users is stalled" not in platform("sql", "-c", "DESCRIBE users", "--csv", check=0).stdout


def test_the_last_arrival_is_known_however_long_ago_it_was(lake, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + timedelta(hours=1)

    with Lake.open(lake) as opened:
        table = opened.table("posts")
        with opened.commit("append") as commit:
            commit.append(table, [opened.write(table, pa.table({"uid": pa.array([1], pa.int32())}))])
        newest = opened.snapshot().time
    monkeypatch.setattr(overview, "datetime", Later)
    for read in (overview._read_local, overview._read_any):
        (posts,) = (relation for relation in read(lake).relations if relation.name == "posts")
        assert (posts.rows_per_second, posts.last_arrival) == (0.0, newest)


def test_rows_that_wait_for_views_are_counted_with_their_lag(tmp_path):
    from platform_plugin.maintenance.run import run_maintenance
    from platform_plugin.platform import Platform

    with Platform.create(tmp_path / "waiting") as made:
        made.execute("CREATE STREAM posts (uid INT)")
        made.execute("CREATE STREAM likes (uid INT)")
        made.execute("CREATE VIEW counts AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
        made.execute("CREATE VIEW liked AS SELECT uid, count(*) AS n FROM likes GROUP BY uid")
        made.execute("INSERT INTO posts VALUES (1), (2)")
        since = made.lake.snapshot().time
        made.execute("INSERT INTO posts VALUES (3)")
        url = str(made.lake.location)
        for read in (overview._read_local, overview._read_any):
            found = {relation.name: relation for relation in read(url).relations}
            assert {name: each.rows_waiting for name, each in found.items()} == {
                "posts": None,
                "likes": None,
                "counts": 3,
                "liked": 0,
            }
            later = since + timedelta(seconds=90)
            assert [found[name].lag_seconds(later) for name in ("counts", "liked", "posts")] == [90.0, 0.0, None]
        described = {row[0].removeprefix("# "): row[1] for row in made.execute("DESCRIBE EXTENDED counts")}
        assert described["rows_waiting"] == "3"
        run_maintenance(made.work)
        assert {relation.rows_waiting for relation in overview.read_overview(url).relations} == {None, 0}


def test_status_says_what_maintained_each_view_last(tmp_path, platform):
    from platform_plugin.maintenance.run import run_maintenance
    from platform_plugin.platform import Platform

    with Platform.create(tmp_path / "engines") as made:
        made.execute("CREATE STREAM posts (uid INT)")
        for name in ("counts", "sums"):
            made.execute(
                f"CREATE VIEW {name} AS SELECT uid % 3 AS k, {'count(*)' if name == 'counts' else 'sum(uid)'} AS n FROM posts GROUP BY 1"
            )
        made.execute("INSERT INTO posts VALUES (1), (2)")
        run_maintenance(made.work)
        made.execute("INSERT INTO posts VALUES (3)")
        done = run_maintenance(made.work, [made.lake.views()[0].name], engine="local")
        url = str(made.lake.location)
        for read in (overview._read_local, overview._read_any):
            newest, before = read(url).engines
            assert (newest.snapshot, newest.relations, newest.rows) == (done.snapshot.id, ("main.counts",), 1)
            assert newest.why == "engine = 'local', option of the run"
            assert (before.relations, before.engine, before.rows) == (("main.sums",), "local", 2)
            assert before.why.startswith("executors would take ")
    said = platform("--url", url, "status").stdout
    assert "main.counts: maintained by engine local in " in said
    assert "  engine = 'local', option of the run" in said
    (first, _) = json.loads(platform("--url", url, "status", "--json").stdout)["lake"]["engines"]
    assert (first["engine"], first["rows"]) == ("local", 1)


def test_it_agrees_with_what_the_lake_says(lake):
    seen = overview.read_overview(lake)
    with Lake.open(lake) as opened:
        newest = opened.snapshot()
        assert (seen.snapshot, seen.committed_at, seen.snapshots) == (newest.id, newest.time, len(opened.commits()))
        sizes = {r.name: r.bytes for r in seen.relations}
        assert sizes["users"] == sum(file.size_bytes for file in opened.scan(opened.table("users"), newest).files)


def test_status_loads_no_engine(lake, environment):
    code = (
        "import sys, json\nfrom platform_plugin.cli import main\ncode = main(['status', '--json'])\n"
        "print(json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert {"pyspark", "sqlalchemy", "pyarrow", "numpy", "pandas", "rich", "prompt_toolkit", "grpc"}.isdisjoint(loaded)


@pytest.mark.parametrize("where", ["missing", "moved", "damaged"])
def test_what_is_no_lake_is_refused_with_the_lake_s_own_words(platform, tmp_path, lake, where):
    place = tmp_path / where
    if where == "moved":
        (tmp_path / "lake").rename(place)
    elif where == "damaged":
        (place / "data").mkdir(parents=True)
        (place / "lake.sqlite").write_text("this is no database" * 100)
    done = platform("status", "--url", str(place), check=1)
    wanted = {"missing": "there is no lake at", "moved": "--adopt", "damaged": "is not a lake's catalogue"}[where]
    assert wanted in done.stderr


READING = [
    ["status"],
    ["tables"],
    ["snapshots"],
    ["check"],
    ["vacuum"],
    ["merge", "users"],
    ["expire", "--all"],
    ["sql", "-c", "SHOW TABLES"],
    ["plot", "some"],
    ["maintain", "--once"],
    ["ingest", "posts", "--once"],
    ["validate", "users", "users.expectations.yml"],
    ["upgrade"],
]


@pytest.mark.parametrize("command", READING, ids=lambda words: words[0])
def test_a_folder_that_is_no_lake_stays_as_it_is(platform, tmp_path, command):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "monday.txt").write_text("nothing of ours")
    (folder / "users.expectations.yml").write_text("expectations: [{type: expect_column_to_exist, kwargs: {column: id}}]")
    done = platform(*(str(folder / word) if word.endswith(".yml") else word for word in command), "--url", str(folder), check=1)
    assert done.stdout == ""
    assert done.stderr == (f'error: there is no lake at "{folder}"\n  hint: create one with `platform init platform+local://{folder}`\n')
    assert {path.name for path in folder.iterdir()} == {"monday.txt", "users.expectations.yml"}


@pytest.mark.parametrize("where", [".", "sql"])
def test_the_lake_of_a_project_is_named_where_none_is(platform, tmp_path, where):
    (tmp_path / "shop" / "sql").mkdir(parents=True)
    Lake.create(str(tmp_path / "shop" / ".platform" / "lake")).close()
    line = f"there is one here: export PLATFORM_URL=platform+local://{tmp_path}/shop/.platform/lake"
    assert line in platform("status", cwd=tmp_path / "shop" / where, PLATFORM_URL=None).stdout
    assert line in platform("tables", cwd=tmp_path / "shop" / where, check=1, PLATFORM_URL=None).stderr


def test_the_lake_of_a_project_that_never_ran_is_told_with_the_command_that_creates_it(platform, tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    folder = tmp_path / ".platform" / "lake"
    said = platform("status", "--url", f"platform+local://{folder}", check=1).stderr
    assert "hint: the first run in Dagster creates it: dg launch --assets '*'; or create one with `platform init" in said
