import json

import pyarrow as pa
import pytest

from platform_plugin.cli.care import read_written_name
from platform_plugin.errors import PlatformError
from platform_plugin.lake.files.files import with_partition
from platform_plugin.lake.lake import Lake


def answer(done):
    return json.loads(done.stdout)


def test_init_founds_a_lake_once(platform, url):
    first = answer(platform("init", url, "--json", check=0))
    assert (first["lake"], first["snapshot"]) == (url, 0)
    again = platform("init", url, check=1)
    assert "exists already" in again.stderr


def test_init_takes_its_place_from_the_environment_as_well(platform, url):
    assert f"export PLATFORM_URL={url}" in platform("init", check=0).stdout


def test_adopt_opens_a_moved_lake(platform, lake, tmp_path):
    (tmp_path / "lake").rename(tmp_path / "moved")
    moved = f"platform+local://{tmp_path}/moved"
    assert "--adopt" in platform("tables", "--url", moved, check=1).stderr
    platform("init", "--adopt", moved, check=0)
    assert len(answer(platform("tables", "--json", "--url", moved, check=0))) == 3


def test_tables_for_people_and_for_programs(platform, lake):
    rows = answer(platform("tables", "--json", check=0))
    assert [(row["name"], row["kind"], row["rows"]) for row in rows] == [
        ("posts", "stream", 0),
        ("users", "table", 4),
        ("rich", "view", None),
    ]
    shown = platform("tables", check=0).stdout
    assert "3 relations at snapshot 5" in shown
    assert "NULL" not in shown


def test_status_without_a_lake_speaks_of_the_server(platform):
    done = platform("status", "--json", check=0, PLATFORM_URL=None)
    assert answer(done)["lake"] is None


def test_status_starts_nothing(platform, lake):
    status = answer(platform("status", "--json", check=0))
    assert status["server"]["running"] is False
    assert (status["lake"]["snapshot"], status["lake"]["leases"]) == (5, 0)
    assert 0 <= status["lake"]["newest_commit_age_seconds"] < 120


def test_snapshots_come_newest_first(platform, lake):
    rows = answer(platform("snapshots", "--limit", "2", "--json", check=0))
    assert [row["snapshot"] for row in rows] == [5, 4]
    assert rows[0]["message"] == "insert into main.users"


def test_care_keeps_the_rows_and_removes_the_files(platform, lake, tmp_path):
    merged = answer(platform("merge", "users", "--json", check=0))
    assert (merged["files_before"], merged["files_after"], merged["rows"]) == (2, 1, 4)
    assert "6 snapshots would be forgotten" in platform("expire", "--all", "--dry-run", check=0).stdout
    promised = answer(platform("expire", "--all", "--dry-run", "--json", check=0))
    expired = answer(platform("expire", "--all", "--json", check=0))
    assert expired["snapshots"] == 6
    assert promised == expired | {"dry_run": True}
    files = set((tmp_path / "lake" / "data").rglob("*.parquet"))
    would = answer(platform("vacuum", "--grace", "0", "--dry-run", "--json", check=0))
    assert set((tmp_path / "lake" / "data").rglob("*.parquet")) == files
    done = answer(platform("vacuum", "--grace", "0", "--json", check=0))
    assert (would["scheduled"], would["bytes"]) == (done["scheduled"], done["bytes"])
    assert len(set((tmp_path / "lake" / "data").rglob("*.parquet"))) == 1
    with Lake.open(lake) as opened:
        assert sorted(opened.read("users").column("id").to_pylist()) == [1, 2, 3, 4]


def test_an_age_needs_its_unit_and_is_said_in_the_result(platform, lake):
    for command in ("expire", "vacuum"):
        assert "'7' has no unit; write 7d for days" in platform(command, "--older-than", "7", check=2).stderr
        assert "--all says that" in platform(command, "--older-than", "0s", check=2).stderr
    assert "write 1d for days" in platform("vacuum", "--grace", "1", check=2).stderr
    assert "0 snapshots older than 7 d forgotten" in platform("expire", "--older-than", "7d", check=0).stdout
    assert "0 snapshots older than 12 h forgotten" in platform("vacuum", "--older-than", "12h", check=0).stdout


def test_vacuum_forgets_snapshots_first_when_told_an_age(platform, lake):
    assert answer(platform("vacuum", "--all", "--json", check=0))["expired"]["snapshots"] == 5
    assert "platform expire --dry-run" in platform("vacuum", "--all", "--dry-run", check=1).stderr


def test_a_grace_keeps_young_files(platform, lake):
    platform("merge", "main.users", check=0)
    kept = answer(platform("vacuum", "--json", check=0))
    assert (kept["scheduled"], kept["orphans"]) == (0, 0)


def test_a_vacuum_says_what_it_left_and_why(platform, lake, tmp_path):
    (tmp_path / "lake" / "data" / "notes.txt").write_text("mine")
    with Lake.open(lake) as opened:
        opened.write(opened.table("users"), pa.table({"id": pa.array([1], pa.int32())}))
        opened.lease(holder="test")
        opened.merge("users")
        said = platform("vacuum", check=0).stdout
        assert said == (
            "0 files deleted (0 B)\n"
            "4 files left\n"
            "  2 in grace: no snapshot has had them for less than 1 d\n"
            "  1 in grace: written less than 1 d ago, and not named by a commit yet\n"
            "  1 unknown: of no kind that the platform writes\n"
        )
        said = platform("vacuum", "--grace", "0", "--dry-run", check=0).stdout
        assert said.startswith("1 file would be deleted (")
        assert "\n  1 that no commit ever named\n3 files left\n  2 leased: a reader took a lease before they became useless\n" in said
        told = answer(platform("vacuum", "--grace", "0", "--dry-run", "--json", check=0))
        assert (told["kept"], told["leased"], told["young"], told["unknown"]) == (2, 2, 0, 1)


def test_a_check_finds_what_cannot_be_true(platform, lake):
    assert "nothing found" in platform("check", check=0).stdout
    rows = pa.table({"region": ["eu"]})
    with Lake.open(lake) as opened, opened.commit("noted wrongly") as commit:
        table = commit.create_table("wrong", opened.columns_of(rows), partition_by=[("region", "identity")])
        commit.append(table, [with_partition(opened.write(table, rows), ["us"])])
    shown = platform("check", check=1).stdout
    assert 'main.wrong: 1 file with partition values of column "region" that its statistics contradict' in shown
    (found,) = answer(platform("check", "--json", check=1))
    assert (found["table"], found["files"]) == ("main.wrong", 1)


@pytest.mark.parametrize("table", ["usres", "a.b.c", "users; DROP TABLE users", ""])
def test_merge_refuses_what_names_no_table(platform, lake, table):
    platform("merge", table, check=1)
    assert len(answer(platform("tables", "--json", check=0))) == 3


def test_names_are_read_as_sql_reads_them():
    assert str(read_written_name("users")) == "main.users"
    assert str(read_written_name("raw.`odd.name`")) == 'raw."odd.name"'
    with pytest.raises(PlatformError):
        read_written_name("'text'")
