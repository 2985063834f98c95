"""The rows of small ranges that travel with a query are those that Spark would read."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.ranges import ROW_IDS, read_range, rows_of, send_rows

pytestmark = pytest.mark.spark

MOMENT, OLD = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC)
COLUMNS = {
    "i": ("INT", pa.int32(), [1, None, -5]),
    "t": ("TINYINT", pa.int8(), [-128, 127, None]),
    "l": ("BIGINT", pa.int64(), [2**62, None, 0]),
    "f": ("FLOAT", pa.float32(), [0.1, -0.0, None]),
    "x": ("DOUBLE", pa.float64(), [math.nan, -0.0, None]),
    "b": ("BOOLEAN", pa.bool_(), [True, False, None]),
    "s": ("STRING", pa.string(), ["", None, "ä\n'"]),
    "d": ("DATE", pa.date32(), [date(1, 1, 1), None, date(2026, 2, 3)]),
    "at": ("TIMESTAMP", pa.timestamp("us", "UTC"), [MOMENT, None, OLD]),
    "n": ("TIMESTAMP_NTZ", pa.timestamp("us"), [MOMENT.replace(tzinfo=None), None, OLD.replace(tzinfo=None)]),
    "m": ("DECIMAL(38,4)", pa.decimal128(38, 4), [Decimal("1.5000"), None, Decimal("-99999999999999999999999999.0001")]),
}
VIEWS = {
    "distinct": "SELECT i, count(DISTINCT s) AS n, kurtosis(x) AS d FROM rows GROUP BY i",
    "ordered": "SELECT b, last(l) AS l, collect_list(t) AS t FROM rows GROUP BY b",
    "called": "SELECT date_format(at, 'MMM yyyy') AS m, sum(m) AS s FROM rows GROUP BY 1",
    "joined": "SELECT regexp_replace(u.name, 'a', 'b') AS name, count(*) AS n FROM rows r JOIN names u ON u.id = r.i GROUP BY 1",
}


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE STREAM rows ({', '.join(f'{name} {kind}' for name, (kind, _, _) in COLUMNS.items())}, u UUID)")
        made.execute("CREATE TABLE names (id INT, name STRING)")
        made.execute("INSERT INTO names VALUES (1, 'anna'), (-5, 'bea')")
        yield made


def append(platform):
    lake = platform.lake
    columns = {name: pa.array(values, kind) for name, (_, kind, values) in COLUMNS.items()}
    with lake.commit("append") as commit:
        table = lake.table("rows")
        commit.append(table, [lake.write(table, pa.table({**columns, "u": pa.array([b"0" * 16] * 3, pa.uuid())}))])


def bag(rows):
    return sorted(repr(tuple(row)) for row in rows)


def test_rows_that_are_sent_are_those_that_spark_reads(platform):
    append(platform)
    append(platform)
    lake, session = platform.lake, platform.work.session
    tail = read_range(lake, lake.table("rows"), lake.snapshot(), 0, view="v")
    sent = send_rows(platform.work, tail, COLUMNS, hidden=ROW_IDS)
    read = rows_of(session, lake, tail, hidden=ROW_IDS).select([*COLUMNS, "_row_id"])
    assert [(field.name, field.dataType) for field in sent.schema] == [(field.name, field.dataType) for field in read.schema]
    assert bag(sent.collect()) == bag(read.collect())
    assert sorted(row["_row_id"] for row in sent.collect()) == list(range(6))
    later = read_range(lake, lake.table("rows"), lake.snapshot(), 3, view="v")
    assert sorted(row["_row_id"] for row in send_rows(platform.work, later, ["i"], hidden=ROW_IDS).collect()) == [3, 4, 5]


def test_what_is_large_or_of_other_types_is_read_by_spark(platform):
    append(platform)
    lake, work = platform.lake, platform.work
    tail = read_range(lake, lake.table("rows"), lake.snapshot(), 0, view="v")
    assert send_rows(work, tail, ["i"]) is not None
    assert send_rows(work, tail, ["i", "u"]) is None
    assert send_rows(work, replace(tail, first_row_id=1), ["i"]) is None
    work.limits = replace(work.limits, sent_range_rows=2)
    assert send_rows(work, tail, ["i"]) is None


@pytest.mark.parametrize("largest", [0, 20_000])
def test_a_run_over_few_rows_is_few_tasks_whatever_the_server_is_set_to(platform, largest):
    work, conf = platform.work, platform.work.session.spark.conf
    work.limits = replace(work.limits, sent_range_rows=largest)
    conf.set("spark.sql.shuffle.partitions", "11")
    for name, query in VIEWS.items():
        platform.execute(f"CREATE VIEW {name} AS {query}")
    for _ in range(2):
        append(platform)
        done = run_maintenance(work)
        assert not done.failed
        assert sorted(done.on_spark) == sorted(f"main.{name}" for name in VIEWS)
        assert (done.tasks < 2 * len(VIEWS)) == (largest > 0)
        assert done.jobs <= 2
        assert conf.get("spark.sql.shuffle.partitions") == "11"
        assert conf.get("spark.sql.codegen.wholeStage") == conf.get("spark.sql.adaptive.enabled") == "true"
        for name, query in VIEWS.items():
            if name != "ordered":
                assert bag(platform.execute(f"SELECT * FROM {name}")) == bag(platform.execute(query)), name
    lists = {row[0]: (row[1], sorted(row[2])) for row in platform.execute("SELECT * FROM ordered")}
    assert lists == {True: (2**62, [-128, -128]), False: (None, [127, 127]), None: (0, [])}
