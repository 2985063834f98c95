"""Results that are too large for memory: they stop in time, take another way, arrive the same, and leave nothing."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.engine.spark.server.attach import attach
from platform_plugin.errors import PlatformError, QueryFailed, QueryInterrupted, ResultTooLarge
from tests.spark_fixture import SETTINGS

pytestmark = pytest.mark.spark

EVERY_TYPE = """
SELECT id, id AS id, CAST(id % 100 AS TINYINT) AS t, CAST(id % 1000 AS SMALLINT) AS s, CAST(id AS INT) AS i,
  CAST(id AS FLOAT) / 3 AS f, id / 7 AS d,
  id % 2 = 0 AS b, CAST(id AS DECIMAL(38, 5)) AS n, nullif(concat('text ', id), 'text 3') AS x, CAST(concat('b', id) AS BINARY) AS y,
  date_add(DATE'0001-01-01', CAST(id AS INT)) AS day, TIMESTAMP'1500-01-01 00:00:00.000001' + make_dt_interval(0, 0, 0, id) AS moment,
  TIMESTAMP_NTZ'2026-01-01 12:00:00' AS local, make_dt_interval(CAST(id AS INT), 1, 2, 3.000004) AS span, NULL AS nothing,
  array(id, NULL, id + 1) AS list, array(array(concat('x', id)), NULL) AS lists, map(concat('k', id), id, 'z', NULL) AS pairs,
  CASE WHEN id % 3 = 0 THEN named_struct('a', id, 'b', named_struct('c', 'deep', 'd', NULL)) END AS parts, array() AS none,
  parse_json(concat('{"a": ', id, '}')) AS variant, array(named_struct('v', parse_json('[1]'))) AS variants
FROM range(0, 5000, 1, 3)
"""


@pytest.fixture
def session(spark_server):
    with attach(SETTINGS, runtime=spark_server) as session:
        yield session


def left(session):
    return list(Path(session.spool.storage.absolute(session.spool.path)).glob("*"))


@pytest.mark.parametrize("way", ["spark", "tasks"])
def test_a_spooled_result_is_the_same_in_order_and_every_type(session, way):
    session.file_access = way
    direct = session.arrow(EVERY_TYPE)
    assert direct.is_complete
    session.task_bytes = 1000
    spooled = session.arrow(EVERY_TYPE)
    assert not spooled.is_complete
    assert spooled.schema == direct.schema
    assert spooled.read_all().equals(direct.read_all())
    assert left(session) == []


MONTHS = """SELECT if(id = 2, NULL, INTERVAL '14' MONTH * CAST(id AS INT)) AS i, array(INTERVAL '1' MONTH, NULL) AS l,
    map('k', named_struct('m', INTERVAL '1-2' YEAR TO MONTH, 'n', id)) AS s, INTERVAL '1' DAY * id AS d
  FROM range(0, 5, 1, 1) ORDER BY id"""


def test_intervals_of_months_are_arrows_own(session):
    direct = session.arrow(MONTHS).read_all()
    assert direct.schema.field("i").type == pa.month_day_nano_interval()
    assert [None if value is None else value.months for value in direct.column("i").to_pylist()] == [0, 14, None, 42, 56]
    first = direct.slice(1, 1).to_pylist()[0]
    assert [value and value.months for value in first["l"]] == [1, None]
    assert first["s"][0][1]["m"].months == 14
    assert first["d"] == timedelta(days=1)
    session.task_bytes = 100
    spooled = session.arrow(MONTHS)
    assert not spooled.is_complete
    assert spooled.read_all().equals(direct)


def test_order_and_empty_tasks_survive_the_spool(session):
    session.task_bytes = 1000
    query = "SELECT id FROM range(0, 100000, 1, 10) WHERE id >= 90000 OR id BETWEEN 30000 AND 30001 ORDER BY id % 100, id"
    found = session.arrow(query)
    assert not found.is_complete
    assert found.read_all().column("id").to_pylist() == sorted([30000, 30001, *range(90000, 100000)], key=lambda n: (n % 100, n))
    unsorted = session.arrow("SELECT id FROM range(0, 100000, 1, 10) WHERE id >= 90000 OR id BETWEEN 30000 AND 30001")
    assert unsorted.read_all().column("id").to_pylist() == [30000, 30001, *range(90000, 100000)]


def test_a_limit_is_kept_on_both_ways(session):
    query = "SELECT id, repeat('x', 100) AS s FROM range(0, 1000000000, 1, 100)"
    assert session.arrow(query, limit=70).read_all().num_rows == 70
    session.task_bytes = 1000
    spooled = session.arrow(query, limit=1000)
    assert not spooled.is_complete
    assert spooled.read_all().num_rows == 1000


def test_rows_of_different_sizes_stop_in_time(session):
    session.task_bytes = 1_000_000
    grown = "SELECT id, repeat('x', CAST(id AS INT)) AS s FROM range(0, 20000, 1, 1)"
    shrunk = "SELECT id, repeat('x', CAST(20000 - id AS INT)) AS s FROM range(0, 20000, 1, 1)"
    few_and_long = "SELECT repeat(CAST(id AS STRING), 1000000) AS s FROM range(0, 40, 1, 1)"
    for query in (grown, shrunk, few_and_long):
        assert not session.arrow(query).is_complete
    assert session.arrow("SELECT id FROM range(0, 50000, 1, 1)").is_complete


def test_without_a_spool_a_large_result_is_refused(session):
    session.task_bytes = 1000
    session.spool = None
    with pytest.raises(ResultTooLarge, match="too large") as caught:
        session.arrow("SELECT id FROM range(100000)")
    assert "CREATE TABLE" in caught.value.hint


def test_a_spooled_result_that_is_let_go_of_leaves_nothing(session):
    session.task_bytes = 1000
    stream = session.arrow("SELECT id, repeat('x', 1000) AS s FROM range(0, 20000000, 1, 2000)")
    next(iter(stream))
    assert left(session) != []
    stream.close()
    assert left(session) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "platform-spool"]
    assert session.arrow("SELECT 1 AS one", is_small=True).read_all().to_pylist() == [{"one": 1}]


def test_faults_of_a_spooled_result_are_told_as_always(session):
    session.task_bytes = 1000
    query = "SELECT id, IF(id < 99999, 'x', raise_error('the last row')) AS s FROM range(0, 100000, 1, 4)"
    with pytest.raises(QueryFailed, match="the last row"):
        session.arrow(query).read_all()
    endless = "SELECT a.id FROM range(0, 3000000, 1, 8) a CROSS JOIN range(3000000) b"
    with pytest.raises(QueryInterrupted, match="after 3 seconds"):
        session.arrow(endless, timeout=timedelta(seconds=3)).read_all()
    assert left(session) == []


def test_a_disk_that_can_not_be_written_is_told(session, tmp_path):
    session.task_bytes = 1000
    folder = Path(session.spool.storage.absolute(session.spool.path))
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("in the way")
    with pytest.raises(PlatformError):
        session.arrow("SELECT id FROM range(100000)").read_all()
    folder.unlink()


def test_the_server_removes_what_a_dead_client_has_left(session, spark_server):
    with attach(SETTINGS, runtime=spark_server) as other:
        folder = Path(other.spool.storage.absolute(other.spool.path))
        (folder / "result").mkdir(parents=True)
    for _ in range(100):
        if not folder.exists():
            break
        threading.Event().wait(0.1)
    assert not folder.exists()
