"""Ingestion of files: every row once, bad records beside the stream, and no way for a file to be half read."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.errors import CatalogueError, CommitConflict, InvalidValue, QueryFailed, StorageError, UnknownObject
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.feeds import file_ingest, file_reading, ingest
from platform_plugin.relations.streams.feeds.ingest import BatchLimits, run_ingest
from platform_plugin.relations.streams.feeds.service import Ingester

pytestmark = pytest.mark.spark


@pytest.fixture
def platform(tmp_path, spark_server):
    (tmp_path / "in").mkdir()
    with Platform.create(f"platform+local://{tmp_path}/lake") as platform:
        yield platform


@pytest.fixture
def folder(platform, tmp_path):
    return tmp_path / "in"


def rows(platform, sql):
    return [tuple(row) for row in platform.execute(sql)]


def quarantine(platform, columns="source, raw, reason", table="s__quarantine"):
    return rows(platform, f"SELECT {columns} FROM {table} ORDER BY source, raw")


def test_each_file_is_read_once_in_one_job_however_many_there_are(platform, folder, tmp_path, duck):
    platform.execute(f"CREATE STREAM s (id INT, name STRING) FROM FILES '{folder}/*.csv' (HEADER)")
    assert run_ingest(platform.work, "s").snapshot is None, "nothing there, nothing committed"
    for number in range(40):
        (folder / f"{number}.csv").write_text(f"id,name\n{number},a\n{number + 100},b\n")
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.files, report.quarantined, report.jobs, report.caught_up) == (80, 40, 0, 1, True)
    again = run_ingest(platform.work, "s")
    assert (again.rows, again.files, again.jobs, again.snapshot) == (0, 0, 0, None)
    (folder / "new.csv").write_text("id,name\n7,c\n")
    assert run_ingest(platform.work, "s").rows == 1
    found = duck(f"platform+local://{tmp_path}/lake").rows("SELECT id, name FROM s ORDER BY ALL")
    assert found == sorted([(n, "a") for n in range(40)] + [(n + 100, "b") for n in range(40)] + [(7, "c")])
    assert "s__quarantine" not in [table.name.relation for table in platform.lake.tables()], "nothing ever had to go there"


def test_batches_keep_to_their_limits_and_say_what_waits(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.json' (max_files 2)")
    for number in range(5):
        (folder / f"{number}.json").write_text(json.dumps({"id": number}))
        os.utime(folder / f"{number}.json", (number, number))
    first = run_ingest(platform.work, "s")
    assert (first.files, first.waiting, first.waiting_bytes, first.caught_up) == (2, 3, 27, False)
    assert rows(platform, "SELECT id FROM s ORDER BY id") == [(0,), (1,)], "the oldest first"
    assert run_ingest(platform.work, "s", limits=BatchLimits(max_files=9, max_bytes=10)).files == 1
    assert run_ingest(platform.work, "s", limits=BatchLimits(max_files=9)).files == 2
    assert rows(platform, "SELECT count(*), count(DISTINCT id) FROM s") == [(5, 5)]


BAD_LINES = {
    "x,1,2026-01-01 00:00:00,not a number": 'column "id" takes INT, not "x"',
    "99999999999,1,2026-01-01 00:00:00,too large": 'column "id" takes INT, not "99999999999"',
    "3,123456789.5,2026-01-01 00:00:00,too many digits": 'column "amount" takes DECIMAL(9,2), not "123456789.5"',
    "5,1,nonsense,no time": 'column "at" takes TIMESTAMP_NTZ, not "nonsense"',
    "6,1": "it has 2 values, 4 expected",
    "7,1,2026-01-01 00:00:00,n,one too many": "it has 5 values, 4 expected",
    ",,,": 'column "id" must not be NULL',
}


def test_csv_records_that_do_not_fit_go_to_the_quarantine_with_the_reason(platform, folder):
    platform.execute(
        f"CREATE STREAM s (id INT NOT NULL, amount DECIMAL(9,2), at TIMESTAMP_NTZ, name STRING) FROM FILES '{folder}/*.csv' (HEADER)"
    )
    good = ["1,1.5,2026-01-01 00:00:00,ann", "2,,,", "4,-1.25,2026-01-01 00:00:00,"]
    odd = folder / "a [1]{x} *%20ü #?.csv"
    odd.write_text("\n".join(["id,amount,at,name", *good, *BAD_LINES]) + "\n")
    (folder / "clean.csv").write_text("id,amount,at,name\n8,1,,x\n")
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.quarantined, report.files, report.jobs) == (4, len(BAD_LINES), 2, 2)
    assert {(raw.decode(), why) for _, raw, why in quarantine(platform)} == set(BAD_LINES.items())
    assert {source for source, _, _ in quarantine(platform)} == {str(odd)}
    found = rows(platform, "SELECT id, amount, name FROM s ORDER BY id")
    assert found == [(1, Decimal("1.50"), "ann"), (2, None, None), (4, Decimal("-1.25"), None), (8, Decimal("1.00"), "x")]
    assert {table.name.relation for table in platform.lake.tables()} == {"s", "s__quarantine"}


KEY = "123e4567-e89b-12d3-a456-426614174000"
RULED_LINES = {
    ' left ;"" ;;01.50;': 'column "id" takes INT, not " left "',
    f'"";{KEY};"say ""hi"", Åke";1.50;7': 'column "id" must not be NULL',
    ";;;;": 'column "id" must not be NULL',
    '"3";"no key";\'x\' ;1E1;7': 'column "key" takes UUID, not "no key"',
    f'4;"{KEY}";\\n;0001.5;0256': 'column "small" takes UTINYINT, not "256"',
    '"5";"";;"1;50"': "it does not have 5 values",
}


def test_the_text_of_a_csv_record_is_kept_as_it_stands_in_the_file(platform, folder):
    """Whatever it breaks: another writer would quote otherwise, and in the order of the stream's columns."""
    platform.execute(
        "CREATE STREAM s (small UTINYINT, amount DECIMAL(9,2), name STRING, key UUID, id INT NOT NULL, added INT DEFAULT 5)"
        f" FROM FILES '{folder}/*.csv' (HEADER, delimiter ';', encoding 'ISO-8859-1')"
    )
    good = f'1;"{KEY}";"Åsa";1.5;255'
    (folder / "a.csv").write_text("\r\n".join(["id;key;name;amount;small", good, "", *RULED_LINES]) + "\r\n", encoding="latin-1")
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.quarantined) == (1, len(RULED_LINES))
    assert {raw.decode(): why for _, raw, why in quarantine(platform)} == RULED_LINES
    assert {text for (text,) in rows(platform, "SELECT CAST(raw AS STRING) FROM s__quarantine")} == set(RULED_LINES)
    assert rows(platform, "SELECT id, key, name, amount, small, added FROM s") == [(1, KEY, "Åsa", Decimal("1.50"), 255, 5)]


def test_a_record_that_is_understood_in_two_ways_is_written_anew(platform, folder, monkeypatch):
    """Only its text is lost then: the batch goes on."""
    platform.execute(f"CREATE STREAM s (id INT NOT NULL, name STRING) FROM FILES '{folder}/*.csv'")
    (folder / "a.csv").write_text('1,a\n,"b"\n')
    monkeypatch.setattr(file_reading, "_csv_lines", lambda *given: file_reading._records(*given).limit(0))
    assert run_ingest(platform.work, "s").quarantined == 1
    assert [raw.decode() for _, raw, _ in quarantine(platform)] == [",b"]


def test_a_csv_record_of_several_lines_is_written_anew_where_it_breaks_only_a_rule(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT NOT NULL, name STRING) FROM FILES '{folder}/*.csv' (multiline)")
    (folder / "a.csv").write_text('1,"two\nlines"\n"","no\nid"\nx,"no\nnumber"\n')
    assert run_ingest(platform.work, "s").quarantined == 2
    assert {raw.decode() for _, raw, _ in quarantine(platform)} == {',"no\nid"', 'x,"no\nnumber"'}


def test_json_records_that_do_not_fit(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT NOT NULL, tags ARRAY<STRING>, key UUID, small UTINYINT) FROM FILES '{folder}/*.jsonl'")
    key = "123e4567-e89b-12d3-a456-426614174000"
    good = ['{"id": 1, "tags": ["a", null]}', f'{{"id": 2, "key": "{key}", "small": 255, "more": 1}}']
    bad = {
        "not json": "it is not a JSON object",
        '{"id": "x"}': 'column "id" takes INT, not "x"',
        '{"id": 3.5}': 'column "id" takes INT, not "3.5"',
        '{"id":4,"tags":"a"}': "its values do not fit the columns",
        '{"id": 9': "it is not a JSON object",
    }
    ruled = {
        '{"tags": ["b"]}': 'column "id" must not be NULL',
        '{"id": 5, "key": "no"}': 'column "key" takes UUID, not "no"',
        '{"id": 6, "small": 256}': 'column "small" takes UTINYINT, not "256"',
    }
    (folder / "a.jsonl").write_text("\n".join([*good, "", *ruled, *bad]))
    (folder / "b.jsonl").write_bytes(b'{"id": 3, "tags": ["\xff"]}\r\n  \n')
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.quarantined) == (2, 9)
    expected = {(raw.encode(), why) for raw, why in (bad | ruled).items()} | {(b'{"id": 3, "tags": ["\xff"]}', "it is not UTF-8")}
    assert {(raw, why) for _, raw, why in quarantine(platform)} == expected
    assert rows(platform, "SELECT id, tags, key, small FROM s ORDER BY id") == [(1, ["a", None], None, None), (2, None, key, 255)]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_every_record_is_in_the_stream_or_in_the_quarantine(platform, folder, kind):
    """Whatever the values: a row's tag, which no other row has, is found in exactly one of the two."""
    columns = "i INT NOT NULL, d DECIMAL(5,2), f DOUBLE, b BOOLEAN, at TIMESTAMP, day DATE, u UUID, small UTINYINT"
    platform.execute(f"CREATE STREAM s (tag STRING, {columns}) FROM FILES '{folder}/*.{kind}'")
    random = Random(7)
    uuid = "123e4567-e89b-12d3-a456-426614174000"
    odd = ["", "1", "-1", "300", "1.5", "1e3", "99999999999", "true", "no", "2026-01-31", "2026-02-31", "2026-01-31 12:00:00", "NaN", "é x"]
    odd += [uuid, "null", "0x10", " 7", "1234.567", "-0", "+5", "1_000", "\U0001f600"]
    names = [column.split()[0] for column in columns.split(", ")]
    likely = ["1", "1.25", "0.5", "true", "2026-01-31 12:00:00", "2026-01-31", uuid, "255"]
    lines = []
    for number in range(600):
        values = [random.choice(odd) if random.random() < 0.1 else value for value in likely]
        if kind == "csv":
            lines.append(",".join([f"tag{number}", *values][: random.choice([9, 9, 9, 9, 8])]))
        else:
            bare = [value and name not in ("at", "day", "u") and random.random() < 0.97 for name, value in zip(names, values, strict=True)]
            written = {name: value if alone else f'"{value}"' for name, value, alone in zip(names, values, bare, strict=True)}
            lines.append("{" + ", ".join([f'"tag": "tag{number}"', *(f'"{name}": {value}' for name, value in written.items())]) + "}")
    for part in range(3):
        (folder / f"{part}.{kind}").write_text("\n".join(lines[part::3]))
    report = run_ingest(platform.work, "s")
    taken = [tag for (tag,) in rows(platform, "SELECT tag FROM s")]
    raw = [raw.decode() for _, raw, _ in quarantine(platform)]
    assert (report.rows, report.quarantined) == (len(taken), len(raw))
    assert min(report.rows, report.quarantined) > 50
    assert set(raw) <= set(lines), "as they came"
    assert sorted(taken + [re.search(r"tag\d+", text)[0] for text in raw]) == sorted(f"tag{number}" for number in range(600))


def test_json_fields_that_the_stream_has_not_are_left_out_or_refused(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT, word STRING) FROM FILES '{folder}/*.json' (extra_fields 'quarantine')")
    (folder / "a.json").write_text('{"id": 1}\n{"id": 2, "wrod": "x"}\n{"word": "y", "id": 3}\n[{"id": 4}]\n')
    assert run_ingest(platform.work, "s").rows == 2
    assert {why for _, _, why in quarantine(platform)} == {'it has a field "wrod" that the stream does not have', "it is not a JSON object"}
    platform.execute("ALTER STREAM s SET (extra_fields = 'ignore')")
    (folder / "b.json").write_text('{"id": 5, "wrod": "x"}\n')
    assert run_ingest(platform.work, "s").rows == 1


def test_json_over_several_lines(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT NOT NULL) FROM FILES '{folder}/*.json' (MULTILINE)")
    (folder / "a.json").write_text('[{"id":\n1},\n{"id": 2}, {"id": null}]')
    (folder / "b.json").write_text('{"id":\n"x"}')
    assert (run_ingest(platform.work, "s").rows, len(quarantine(platform))) == (2, 2)


def test_a_malformed_record_fails_the_batch_where_that_is_declared(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv' (HEADER, on_malformed 'fail')")
    (folder / "a.csv").write_text("id\n1\n")
    (folder / "b.csv").write_text("id\n2\nthree\n")
    before = platform.lake.snapshot().id
    with pytest.raises(InvalidValue, match="1 malformed record for stream") as caught:
        run_ingest(platform.work, "s")
    assert f'{folder}/b.csv: column "id" takes INT, not "three": three' in caught.value.detail
    assert platform.lake.snapshot().id == before
    assert [path for path, _ in platform.lake.storage.listing("main") if path.endswith(".parquet")] == [], "what was written is gone"
    (folder / "b.csv").write_text("id\n2\n3\n")
    assert run_ingest(platform.work, "s").rows == 3


def test_headers_decide_which_column_is_which_file_by_file(platform, folder):
    platform.execute(
        f"CREATE STREAM s (id INT NOT NULL, name STRING DEFAULT 'nobody', n INT) FROM FILES '{folder}/*.csv' (HEADER, DELIMITER ';')"
    )
    (folder / "1.csv").write_text("id;name;n\n1;a;1\n")
    (folder / "2.csv").write_text("N;ID;Name\n2;20;b\n")
    (folder / "3.csv").write_text("\ufeffid\n3\n", encoding="utf-8")
    (folder / "4.csv").write_text("id;nme\n4;c\n")
    (folder / "5.csv").write_text("name;n\nd;5\n")
    (folder / "6.csv").write_text("id;id\n6;6\n")
    (folder / "7.csv").write_text("n;id\nx;7\n")
    report = run_ingest(platform.work, "s")
    assert rows(platform, "SELECT id, name, n FROM s ORDER BY id") == [(1, "a", 1), (3, "nobody", None), (20, "b", 2)]
    assert (report.files, report.jobs, report.refused) == (4, 2, tuple(f"{folder}/{name}.csv" for name in (4, 5, 6)))
    assert {Path(source).name: why for source, _, why in quarantine(platform)} == {
        "4.csv": 'the file was refused: its header names a column "nme" that the stream does not have',
        "5.csv": 'the file was refused: it has no column "id", which must not be NULL',
        "6.csv": 'the file was refused: its header names the column "id" twice',
        "7.csv": 'column "n" takes INT, not "x"',
    }


def test_parquet_is_read_by_name_and_cast_without_loss(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT, price DECIMAL(9,2), day DATE, word STRING) FROM FILES '{folder}/*.parquet'")
    pq.write_table(pa.table({"id": pa.array([1, 1 << 40, None], pa.int64()), "word": ["a", "b", "c"]}), folder / "1.parquet")
    pq.write_table(pa.table({"price": pa.array([1.5, 2.25]), "id": pa.array([7, 8], pa.int8())}), folder / "2.parquet")
    moments = pa.array([0, 86_400_000_000 + 1], pa.timestamp("us"))
    pq.write_table(pa.table({"id": pa.array([1.0, 2.5]), "day": moments}), folder / "3.parquet")
    pq.write_table(pa.table({"other": [1]}), folder / "4.parquet")
    pq.write_table(pa.table({"id": [[1]]}), folder / "5.parquet")
    pq.write_table(pa.table({"id": pa.array([], pa.int32())}), folder / "6.parquet")
    (folder / "7.parquet").write_bytes((folder / "1.parquet").read_bytes()[:-20])
    (folder / "8.parquet").write_bytes(b"")
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.quarantined, report.files) == (5, 2, 4)
    assert [Path(uri).name for uri in report.refused] == ["4.parquet", "5.parquet", "7.parquet"]
    found = rows(platform, "SELECT id, price, CAST(day AS STRING), word FROM s ORDER BY id NULLS LAST, word NULLS LAST")
    assert found == [
        (1, None, None, "a"),
        (1, None, "1970-01-01", None),
        (7, Decimal("1.50"), None, None),
        (8, Decimal("2.25"), None, None),
        (None, None, None, "c"),
    ]
    reasons = {Path(source).name: (raw and json.loads(raw), why) for source, raw, why in quarantine(platform)}
    assert reasons["1.parquet"] == ({"id": 1 << 40, "word": "b"}, "its values do not fit the columns")
    assert reasons["3.parquet"][0]["id"] == 2.5
    assert rows(platform, "SELECT position FROM s__quarantine WHERE source LIKE '%/1.parquet'") == [(1,)], "counted from 0"
    assert "does not have" in reasons["4.parquet"][1]
    assert "does not end in a footer" in reasons["7.parquet"][1]


def test_damaged_files_are_refused_whole_and_come_again_once_they_are_mended(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT, word STRING) FROM FILES '{folder}/*.csv*' (HEADER)")
    lines = "id,word\n" + "".join(f"{number},{os.urandom(8).hex()}\n" for number in range(30_000))
    whole = gzip.compress(lines.encode())
    (folder / "a b (1).csv.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "b.csv.gz").write_bytes(b"this is not gzip")
    (folder / "c.csv").write_text("id,word\n1,x\n")
    (folder / "d.csv").write_text("")
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.files) == (1, 1)
    assert sorted(Path(uri).name for uri in report.refused) == ["a b (1).csv.gz", "b.csv.gz"]
    assert "can't be unpacked to its end" in quarantine(platform)[0][2]
    (folder / "a b (1).csv.gz").write_bytes(whole)
    (folder / "d.csv").write_text("id,word\n2,y\n")
    mended = run_ingest(platform.work, "s")
    assert (mended.rows, mended.files, mended.refused) == (30_001, 2, ())
    assert rows(platform, "SELECT count(*), count(DISTINCT id, word) FROM s") == [(30_002, 30_002)]


def test_a_store_that_does_not_answer_refuses_no_file(platform, folder, monkeypatch):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv.gz' (FORMAT csv)")
    (folder / "a.csv.gz").write_bytes(b"not gzip")
    monkeypatch.setattr(file_ingest, "find_damage", lambda *_: None)
    with pytest.raises(QueryFailed):
        run_ingest(platform.work, "s")
    monkeypatch.undo()
    assert run_ingest(platform.work, "s").refused == (f"{folder}/a.csv.gz",)


def test_a_file_that_changes_while_it_is_read_is_left_for_later(platform, folder, monkeypatch):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv' (HEADER)")
    (folder / "a.csv").write_text("id\n1\n")
    (folder / "b.csv").write_text("id\n2\n")
    land = file_ingest.run_landing
    calls = []

    def growing(*args, **kwargs):
        landed = land(*args, **kwargs)
        calls.append(landed.rows)
        if len(calls) == 1:
            with (folder / "b.csv").open("a") as file:
                file.write("3\n")
        return landed

    monkeypatch.setattr(file_ingest, "run_landing", growing)
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.unsteady, report.caught_up) == (1, (f"{folder}/b.csv",), False)
    assert calls == [2, 1]
    monkeypatch.undo()
    assert run_ingest(platform.work, "s").rows == 2
    assert rows(platform, "SELECT id FROM s ORDER BY id") == [(1,), (2,), (3,)]


def test_a_file_that_disappears_before_it_is_read(platform, folder, monkeypatch):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv'")
    (folder / "a.csv").write_text("1\n")
    (folder / "b.csv").write_text("2\n")
    shapes = file_ingest.read_shapes

    def vanishing(*args):
        (folder / "a.csv").unlink(missing_ok=True)
        return shapes(*args)

    monkeypatch.setattr(file_ingest, "read_shapes", vanishing)
    report = run_ingest(platform.work, "s")
    assert (report.rows, report.unsteady) == (1, (f"{folder}/a.csv",))


def test_a_change_after_reading_is_told_once_and_never_read(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv'")
    (folder / "a.csv").write_text("1\n")
    run_ingest(platform.work, "s")
    (folder / "a.csv").write_text("1\n2\n")
    assert run_ingest(platform.work, "s").changed == (f"{folder}/a.csv",)
    assert run_ingest(platform.work, "s").changed == ()
    assert quarantine(platform) == [
        (f"{folder}/a.csv", None, "the file changed after it was ingested; it is not read again: put new rows into a new file")
    ]
    assert rows(platform, "SELECT id FROM s") == [(1,)]


def test_a_change_after_reading_fails_where_that_is_declared(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv' (on_change 'fail')")
    (folder / "a.csv").write_text("1\n")
    run_ingest(platform.work, "s")
    (folder / "a.csv").write_text("1\n2\n")
    with pytest.raises(InvalidValue, match="changed after"):
        run_ingest(platform.work, "s")


def test_files_that_are_gone_are_forgotten_and_never_read_again(platform, folder):
    order = "ordered_by 'name', remember '1 us'"
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv' ({order})")
    for number in range(3):
        (folder / f"{number}.csv").write_text(f"{number}\n")
        assert run_ingest(platform.work, "s").rows == 1
        (folder / f"{number}.csv").unlink()
    (folder / "0.csv").write_text("0\n")
    assert run_ingest(platform.work, "s").late == (f"{folder}/0.csv",)
    assert run_ingest(platform.work, "s").snapshot is None, "told once"
    assert [reason.split(",")[0] for (reason,) in quarantine(platform, "reason")] == [
        "the file came after those with later names or times were read and forgotten"
    ]
    assert rows(platform, "SELECT id FROM s ORDER BY id") == [(0,), (1,), (2,)]
    (folder / "1.csv").write_text("1\n")
    platform.execute("ALTER STREAM s SET (on_change = 'fail')")
    with pytest.raises(InvalidValue, match="came late"):
        run_ingest(platform.work, "s")


def test_retention_applies_to_what_was_pulled(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv' WITH (retention_rows = 10)")
    for number in range(3):
        (folder / f"{number}.csv").write_text("".join(f"{number * 10 + place}\n" for place in range(10)))
        run_ingest(platform.work, "s")
    assert rows(platform, "SELECT min(id), count(*) FROM s") == [(20, 10)]


def test_relations_without_a_feed_are_refused(platform):
    platform.execute("CREATE STREAM pushed (a INT)")
    platform.execute("CREATE TABLE kept (a INT)")
    with pytest.raises(InvalidValue, match="has no feed"):
        run_ingest(platform.work, "pushed")
    with pytest.raises(InvalidValue, match="is a table, not a stream"):
        run_ingest(platform.work, "kept")
    with pytest.raises(UnknownObject):
        run_ingest(platform.work, "nobody")


def test_another_table_in_the_place_of_the_quarantine_is_left_alone(platform, folder):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv'")
    platform.execute("CREATE TABLE s__quarantine (mine INT)")
    (folder / "a.csv").write_text("x\n")
    with pytest.raises(InvalidValue, match="in the place of the quarantine"):
        run_ingest(platform.work, "s")
    (folder / "a.csv").write_text("1\n")
    assert run_ingest(platform.work, "s").rows == 1


def test_two_ingesters_on_one_source_repeat_nothing(platform, folder, tmp_path):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv' (max_files 3)")
    for number in range(24):
        (folder / f"{number}.csv").write_text(f"{number}\n")
    conflicts = []

    def work_off(url):
        with Platform.open(url) as other:
            while True:
                try:
                    if run_ingest(other.work, "s").caught_up:
                        return
                except CommitConflict as conflict:
                    conflicts.append(conflict)

    threads = [threading.Thread(target=work_off, args=(f"platform+local://{tmp_path}/lake",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert sorted(rows(platform, "SELECT id FROM s")) == [(number,) for number in range(24)]


def test_the_loser_of_a_race_leaves_no_files_and_looks_again(platform, folder, tmp_path, monkeypatch):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv'")
    (folder / "a.csv").write_text("1\nx\n")
    land = file_ingest.run_landing
    others = []

    def overtaken(*args, **kwargs):
        landed = land(*args, **kwargs)
        if not others:
            others.append(None)
            with Platform.open(f"platform+local://{tmp_path}/lake") as other:
                others.append(run_ingest(other.work, "s"))
        return landed

    monkeypatch.setattr(file_ingest, "run_landing", overtaken)
    report = run_ingest(platform.work, "s")
    assert (others[1].rows, report.rows, report.snapshot) == (1, 0, None)
    assert rows(platform, "SELECT id FROM s") == [(1,)]
    assert len(quarantine(platform)) == 1
    files = [path for path, _ in platform.lake.storage.listing("main") if path.endswith(".parquet")]
    assert len(files) == 2, "one of the stream, one of its quarantine"
    assert ingest._ATTEMPTS > 1


KILLED = """
import os, signal, sys
from platform_plugin.platform import Platform
from platform_plugin.lake.commit import commit
from platform_plugin.lake.commit import writer
from platform_plugin.relations.streams.feeds import file_ingest
from platform_plugin.relations.streams.feeds import landing
from platform_plugin.relations.streams.feeds.ingest import run_ingest

def dies(module, name, when):
    real = getattr(module, name)
    def call(*args, **kwargs):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(module, name, call)

owner = {"file_ingest": file_ingest, "landing": landing, "Writer": writer.Writer, "Commit": commit.Commit}
url, place, name, when = sys.argv[1:]
with Platform.open(url) as platform:
    dies(owner[place], name, when)
    run_ingest(platform.work, "s")
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_anywhere_it_neither_loses_nor_repeats_a_row(platform, folder, tmp_path):
    url = f"platform+local://{tmp_path}/lake"
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv'")
    places = [
        ("file_ingest", "run_landing", "before"),
        ("landing", "run_write", "after"),
        ("file_ingest", "run_landing", "after"),
        ("file_ingest", "run_quarantine", "after"),
        ("file_ingest", "read_changed", "after"),
        ("Writer", "flush", "before"),
        ("Writer", "finish", "before"),
        ("Writer", "finish", "after"),
        ("Commit", "_attempt", "after"),
    ]
    for number, (place, name, when) in enumerate(places):
        (folder / f"{number}.csv").write_text(f"{number}\nbad {number}\n")
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, url, place, name, when], capture_output=True, text=True, timeout=200, check=False
        )
        assert killed.returncode == -9, (place, name, when, killed.stderr)
        assert platform.lake.read("s").num_rows <= number + 1
    run_ingest(platform.work, "s")
    assert sorted(rows(platform, "SELECT id FROM s")) == [(number,) for number in range(len(places))]
    assert [raw.decode() for _, raw, _ in quarantine(platform)] == [f"bad {number}" for number in range(len(places))]


@pytest.mark.postgres
def test_on_postgres_two_processes_and_a_restart_in_the_middle_change_nothing(private_postgres, tmp_path, spark_server, monkeypatch):
    (tmp_path / "in").mkdir()
    database = private_postgres.database("postgres")
    with Platform.create(database.lake_url(tmp_path / "data")) as platform:
        platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{tmp_path}/in/*.csv' (max_files 2)")
        for number in range(8):
            (tmp_path / "in" / f"{number}.csv").write_text(f"{number}\nbad {number}\n")
        land, told = file_ingest.run_landing, []

        def interrupted(*args, **kwargs):
            landed = land(*args, **kwargs)
            if not told:
                private_postgres.stop()
            return landed

        class Restarting:
            def report(self, report):
                pass

            def failed(self, error, pause_seconds):
                told.append(error)
                private_postgres.start()

        monkeypatch.setattr(file_ingest, "run_landing", interrupted)
        ingester = Ingester(platform.work, "s", interval_seconds=0)
        threading.Timer(60, ingester.stop).start()

        def stop_when_done():
            while run_in(database.lake_url(tmp_path / "data")) < 8:
                time.sleep(0.3)
            ingester.stop()

        def run_in(url):
            with suppress(CatalogueError), Platform.open(url) as other:
                return other.lake.read("s").num_rows
            return 0

        watching = threading.Thread(target=stop_when_done, daemon=True)
        watching.start()
        ingester.run(Restarting())
        assert isinstance(told[0], CatalogueError)
        assert sorted(rows(platform, "SELECT id FROM s")) == [(number,) for number in range(8)]
        assert [raw.decode() for _, raw, _ in quarantine(platform)] == [f"bad {number}" for number in range(8)]


def test_a_full_disk_fails_the_batch_and_leaves_nothing(platform, folder, monkeypatch):
    platform.execute(f"CREATE STREAM s (id INT) FROM FILES '{folder}/*.csv'")
    (folder / "a.csv").write_text("1\nx\n")
    before = platform.lake.snapshot().id

    def full(*args, **kwargs):
        raise StorageError("the disk is full", hint="make room")

    monkeypatch.setattr(file_ingest, "run_quarantine", full)
    with pytest.raises(StorageError):
        run_ingest(platform.work, "s")
    assert platform.lake.snapshot().id == before
    assert [path for path, _ in platform.lake.storage.listing("main") if path.endswith(".parquet")] == []
    monkeypatch.undo()
    assert run_ingest(platform.work, "s").rows == 1
