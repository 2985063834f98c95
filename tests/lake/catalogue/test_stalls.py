"""What a gate or an error keeps from a new version is noted until it goes on, and shown of the relation that it is about only."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue import stalls
from platform_plugin.lake.catalogue.stalls import end_stalls, note_stall, read_stalls
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.lake import Lake
from platform_plugin.platform import Platform
from platform_plugin.quality.gate import RowsRefused, hold_to_gate
from platform_plugin.quality.suite import parse_suite
from platform_plugin.select.overview import read_overview

T, NEW = Name.of("t"), Name.of("new")
SUITE = {"gate": True, "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}]}


@pytest.fixture
def lake(lake_url):
    with Lake.create(lake_url) as made:
        create(made)
        yield made


def create(lake):
    with lake.commit("make") as commit:
        commit.create_table("t", lake.columns_of(pa.schema([("id", pa.int32())])))


def stalls_of(lake):
    with lake.reading() as connection:
        return read_stalls(connection, lake.table("t"))


def test_a_stall_lasts_until_it_ends(lake, monkeypatch):
    assert stalls_of(lake) == []
    end_stalls(lake, [T], cause="maintenance")
    note_stall(lake, T, cause="maintenance", error=InvalidValue("no", detail="row 3", hint="mend it"))
    (first,) = stalls_of(lake)
    assert (first.reason, first.hint, first.since) == ("no: row 3", "mend it", first.tried_at)
    note_stall(lake, Name.of("T"), cause="maintenance", error=InvalidValue("no", detail="row 3", hint="mend it"))
    assert stalls_of(lake) == [first], "the same within a minute is not written again"
    monkeypatch.setattr(stalls, "_SAME_FOR", dt.timedelta(0))
    note_stall(lake, T, cause="maintenance", error=InvalidValue("still no"))
    (later,) = stalls_of(lake)
    assert (later.reason, later.since) == ("still no", first.since)
    assert later.tried_at > first.tried_at
    assert "tried last at" in later.lines[0]
    end_stalls(lake, [NEW], cause="maintenance")
    end_stalls(lake, [T], cause="gate")
    assert stalls_of(lake) == [later]
    end_stalls(lake, [T], cause="maintenance")
    assert stalls_of(lake) == []


def test_another_relation_of_the_name_is_not_stalled(lake):
    for name in (T, NEW):
        note_stall(lake, name, cause="gate", error=InvalidValue("no"), row_count=2)
    assert [each.name for each in read_overview(str(lake.location)).stalls] == ["new", "t"], "one is not there yet"
    with lake.commit("replace") as commit:
        commit.drop_table(lake.table("t"))
    create(lake)
    assert stalls_of(lake) == []
    assert [each.name for each in read_overview(str(lake.location)).stalls] == ["new"]


def test_what_a_gate_holds_back_is_shown_until_something_passes(tmp_path):
    pytest.importorskip("great_expectations")
    suite = parse_suite(SUITE, file="strict.yml")
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE t (id INT)")

        def insert(*values):
            with hold_to_gate(platform.lake, T, suite):
                platform.execute(f"INSERT INTO t VALUES {', '.join(f'({value})' for value in values)}")

        insert(1)
        passed = platform.lake.snapshot().id
        platform.execute("INSERT INTO t VALUES (7)")
        with pytest.raises(RowsRefused):
            insert(2, "NULL")
        (stall,) = read_overview(str(platform.lake.location)).stalls
        assert (stall.row_count, stall.suite, stall.passed) == (2, "strict.yml", passed)
        described = platform.execute("DESCRIBE t")
        assert described.row_count == 1, "its rows are the columns, for programs that read them"
        assert described.message.splitlines()[0].startswith(
            'main.t is stalled: the gate of suite "strict.yml" holds back a version with 2 rows'
        )
        facts = {row[0]: row[1] for row in platform.execute("DESCRIBE EXTENDED t")}
        assert f"readable: snapshot {passed} has the version" in facts["# stalled by gate"]
        with pytest.raises(PlatformError), hold_to_gate(platform.lake, T, suite):
            platform.execute("INSERT INTO none VALUES (1)")
        assert read_overview(str(platform.lake.location)).stalls == (stall,), "an error that the gate did not raise changes nothing"
        insert(3)
        assert read_overview(str(platform.lake.location)).stalls == ()
        assert platform.execute("DESCRIBE t").message == ""


def test_a_batch_that_is_gone_stalls_nothing(lake):
    pytest.importorskip("great_expectations")
    table, suite = lake.table("t"), parse_suite(SUITE, file="strict.yml")
    file = lake.write(table, pa.table({"id": pa.array([None], pa.int32())}))
    with pytest.raises(RowsRefused), hold_to_gate(lake, T, suite, batches=True), lake.commit("batch") as commit:
        commit.append(table, [file])
    assert [each.row_count for each in stalls_of(lake)] == [1]
    with hold_to_gate(lake, T, suite, batches=True):
        pass
    assert stalls_of(lake) == []
