"""The tests CV-01 to CV-37 of the specification through the public door, and where those are that stand elsewhere."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.views.follow import step as view_step
from tests.benchmarks import views as aim
from tests.benchmarks import views_tpch
from tests.relations.streams import tpch

FOLDER = Path(__file__).parent
ELSEWHERE = {
    "CV-02": "test_maintaining.py::test_only_what_comes_after_its_creation_counts_unless_asked_for",
    "CV-07": "test_maintaining.py::test_additions_are_compacted_and_nothing_is_counted_twice",
    "CV-08": "read/test_stored.py::test_nothing_new_is_looked_up_and_anything_new_is_computed",
    "CV-12": "test_split_on_spark.py::test_parts_over_ranges_give_what_the_query_gives_over_all_rows",
    "CV-13": "../../operators/group/test_admission.py::test_a_refusal_names_the_rule_the_place_and_what_to_write_instead",
    "CV-14": "../../operators/group/test_admission.py::test_a_refusal_names_the_rule_the_place_and_what_to_write_instead",
    "CV-16": "../../operators/group/test_split.py::test_cv_16_the_stream_is_probed",
    "CV-17": "../../operators/group/test_admission.py::test_a_refusal_names_the_rule_the_place_and_what_to_write_instead",
    "CV-18": "../../operators/group/test_split.py::test_cv_18_sorting_without_a_limit_is_left_out_and_told",
    "CV-20": "../../operators/group/test_admission.py::test_of_each_pair_on_the_page_the_first_is_refused_and_the_second_accepted",
    "CV-22": "test_maintaining.py::test_tables_above_the_grouping_are_followed_and_those_below_are_pinned",
    "CV-23": "read/test_stored.py::test_tables_above_the_grouping_count_others_do_not",
    "CV-24": "test_rebuild.py::test_a_table_can_be_kept_from_changing",
    "CV-25": "test_interleaving.py::test_views_are_what_their_queries_give_over_all_rows",
    "CV-28": "read/test_stored.py::test_readers_may_accept_what_was_the_answer_a_while_ago",
    "CV-31": "test_crash.py::test_killed_here_and_there",
    "CV-35": "../../operators/group/test_admission.py::test_of_each_pair_on_the_page_the_first_is_refused_and_the_second_accepted",
}


def test_every_test_of_the_specification_is_there():
    text = Path(__file__).read_text()
    here = {f"CV-{number}" for name in re.findall(r"^def test_(\w+)", text, re.MULTILINE) for number in re.findall(r"cv_(\d\d)", name)}
    for name, place in ELSEWHERE.items():
        file, _, test = place.partition("::")
        assert f"def {test}(" in (FOLDER / file).read_text(), name
    assert here | set(ELSEWHERE) == {f"CV-{number:02}" for number in range(1, 38)}


@pytest.fixture(scope="module")
def platform(tmp_path_factory, spark_server):
    with Platform.create(tmp_path_factory.mktemp("cv") / "lake") as made:
        made.execute("CREATE STREAM s (id INT, k INT, x INT) WITH (retention_rows = 1000000)")
        yield made


def rows(platform, sql):
    return sorted(platform.execute(sql), key=repr)


def maintained(platform):
    done = run_maintenance(platform.work)
    assert not done.failed
    return done


@pytest.mark.spark
def test_cv_01_the_running_example(platform):
    for statement in (
        "CREATE TABLE station (station INT, plant STRING, location STRING, phone STRING)",
        """INSERT INTO station VALUES (1, 'Spartanburg', 'Gate 2 - EN', '+1 555'), (2, 'Spartanburg', 'Gate 1 - SE', '+1 555'),
            (3, 'Regensburg', 'Tor 2', '+49 555')""",
        "CREATE STREAM part_usage (id INT, part STRING, station INT, n INT)",
        "CREATE STREAM part_restock (id INT, part STRING, station INT, n INT)",
        """CREATE VIEW short AS SELECT used.part, station.location, station.phone
            FROM (SELECT part, station, count(*) AS cnt FROM part_usage GROUP BY part, station) AS used
            JOIN (SELECT part, station, count(*) AS cnt FROM part_restock GROUP BY part, station) AS restocked
              ON used.part = restocked.part AND used.station = restocked.station
            JOIN station ON used.station = station.station
            WHERE restocked.cnt - used.cnt < 5""",
        "INSERT INTO part_usage VALUES (1, 'Wheel', 5, 4), (2, 'Seat', 2, 2), (3, 'Seat', 2, 2)",
        "INSERT INTO part_restock VALUES (1, 'Wheel', 5, 1), (2, 'Seat', 2, 6), (3, 'Engine', 1, 3)",
    ):
        platform.execute(statement)
    assert rows(platform, "SELECT * FROM short") == [("Seat", "Gate 1 - SE", "+1 555")]
    maintained(platform)
    platform.execute("INSERT INTO part_restock VALUES " + ", ".join(f"({place}, 'Seat', 2, 1)" for place in range(10, 16)))
    assert rows(platform, "SELECT * FROM short") == []


@pytest.mark.spark
def test_cv_03_cv_29_nothing_raw_is_kept(platform):
    platform.execute("CREATE STREAM many (k INT, x BIGINT) WITH (retention_rows = 10)")
    platform.execute("CREATE VIEW sums AS SELECT k, count(*) AS n, sum(x) AS s FROM many GROUP BY k")
    lake = platform.lake
    table = lake.table("many")
    for _ in range(2):
        with lake.commit("many") as commit:
            columns = {"k": pa.array([place % 100 for place in range(500_000)], pa.int32()), "x": pa.array(range(500_000), pa.int64())}
            commit.append(table, [lake.write(table, pa.table(columns))])
        maintained(platform)
    platform.execute("INSERT INTO many VALUES " + ", ".join(["(0, 0)"] * 10))
    lake.retain()
    (state,) = [found for found in lake.tables() if found.name.relation.startswith("sums__state")]
    scan = lake.scan(state, lake.snapshot())
    assert sum(file.record_count for file in lake.scan(lake.table("many"), lake.snapshot()).files) == 10, "the rows are gone"
    assert sum(file.record_count for file in scan.files) == 2 * 100
    assert rows(platform, "SELECT sum(n), sum(s) FROM sums") == [(1_000_010, 2 * sum(range(500_000)))]


@pytest.mark.spark
def test_cv_04_having_is_asked_after_the_merge_and_cv_05_cv_06_of_partials(platform):
    platform.execute("CREATE VIEW having_n AS SELECT k FROM s GROUP BY k HAVING count(*) > 2")
    platform.execute("CREATE VIEW averages AS SELECT k, avg(x) AS a, 2 * sum(x) + 1 AS e FROM s GROUP BY k")
    platform.execute("INSERT INTO s VALUES (1, 1, 1), (2, 1, 1)")
    maintained(platform)
    assert rows(platform, "SELECT * FROM having_n") == []
    platform.execute("INSERT INTO s VALUES (3, 1, 1), (4, 2, 1)")
    maintained(platform)
    assert rows(platform, "SELECT * FROM having_n") == [(1,)]
    platform.execute("INSERT INTO s VALUES (5, 3, 1)")
    maintained(platform)
    platform.execute("INSERT INTO s VALUES (6, 3, 2), (7, 3, 3), (8, 3, 4)")
    assert rows(platform, "SELECT a, e FROM averages WHERE k = 3") == [(2.5, 21)]


@pytest.mark.spark
@pytest.mark.parametrize(("step", "largest"), [("assign_range", Limits().client_range_rows), ("run_answers", 0)])
def test_cv_09_cv_11_what_is_inserted_while_a_run_works_waits_for_nobody_and_is_read_next(platform, monkeypatch, step, largest):
    monkeypatch.setattr(platform.work, "engine", "auto" if largest else "spark_sql")
    platform.execute(f"CREATE VIEW waiting_{largest} AS SELECT count(*) AS n FROM s")
    platform.execute("INSERT INTO s VALUES (1, 1, 1)")
    inserted = []

    def during(*given, **more):
        # The run has read what it takes up, and has not committed.
        platform.execute("INSERT INTO s VALUES (2, 2, 2)")
        inserted.append(rows(platform, f"SELECT * FROM waiting_{largest}"))
        return found(*given, **more)

    found = getattr(view_step, step)
    monkeypatch.setattr(view_step, step, during)
    maintained(platform)
    assert inserted[-1] == [(1 + len(inserted),)]
    assert rows(platform, f"SELECT * FROM waiting_{largest}") == [(1 + len(inserted),)]


@pytest.mark.spark
def test_cv_10_cv_32_all_that_was_inserted_counts_once_for_every_connection(platform):
    platform.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM s")
    platform.execute("INSERT INTO s VALUES (1, 1, 1), (2, 2, 2)", batch_id="b1")
    with Platform.open(str(platform.lake.location)) as other:
        assert rows(other, "SELECT * FROM counted") == [(2,)]
        other.execute("INSERT INTO s VALUES (1, 1, 1), (2, 2, 2)", batch_id="b1")
        maintained(other)
    assert rows(platform, "SELECT * FROM counted") == [(2,)]


@pytest.mark.spark
def test_cv_15_cv_19_a_unique_key_stores_the_rows_and_the_top_groups_are_right_after_each_run(platform):
    platform.execute("CREATE STREAM t (id INT, k INT)")
    platform.execute("CREATE VIEW by_id AS SELECT id, max(k) AS k FROM t GROUP BY id")
    platform.execute("CREATE VIEW top AS SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 2")
    platform.execute("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2), (4, 3)")
    maintained(platform)
    assert rows(platform, "SELECT * FROM top") == [(1, 2), (2, 1)]
    platform.execute("INSERT INTO t VALUES (5, 3), (6, 3), (7, 2)")
    assert rows(platform, "SELECT * FROM top") == [(1, 2), (3, 3)]
    maintained(platform)
    assert rows(platform, "SELECT * FROM top") == [(1, 2), (3, 3)]
    (state,) = [found for found in platform.lake.tables() if found.name.relation.startswith("by_id__state")]
    assert sum(file.record_count for file in platform.lake.scan(state, platform.lake.snapshot()).files) == 7
    with platform.lake.commit("many") as commit:
        t = platform.lake.table("t")
        columns = {"id": pa.array(range(10, 2010), pa.int32()), "k": pa.array([1] * 2000, pa.int32())}
        commit.append(t, [platform.lake.write(t, pa.table(columns))])
    warning = "almost every row is a group of its own, so that what is stored grows with the stream"
    assert warning in platform.execute("REFRESH VIEW by_id").message
    assert warning in str(list(platform.execute("DESCRIBE EXTENDED by_id")))
    assert warning not in platform.execute("REFRESH VIEW top").message
    assert warning not in str(list(platform.execute("DESCRIBE EXTENDED top")))


@pytest.mark.spark
def test_cv_21_what_is_looked_up_is_not_computed_again(platform, monkeypatch):
    platform.execute("CREATE TABLE kinds (k INT, kind STRING)")
    platform.execute("INSERT INTO kinds VALUES (1, 'one'), (2, 'two')")
    platform.execute("CREATE VIEW kinded AS SELECT kind, count(*) AS n FROM s JOIN kinds USING (k) GROUP BY kind")
    scanned = []
    found = platform.lake.scan

    def scan(table, *given, **more):
        scanned.append(table.name.relation)
        return found(table, *given, **more)

    monkeypatch.setattr(platform.lake, "scan", scan)
    platform.execute("INSERT INTO s VALUES (1, 1, 1), (1, 2, 1), (1, 2, 1)")
    maintained(platform)
    assert rows(platform, "SELECT * FROM kinded") == [("one", 1), ("two", 2)]
    assert "kinds" not in scanned
    assert any(name.startswith("kinded__static") for name in scanned)


@pytest.mark.spark
def test_cv_26_two_streams_are_cut_at_one_snapshot(platform):
    for name in "ab":
        platform.execute(f"CREATE STREAM pair_{name} (x BIGINT)")
    platform.execute(
        "CREATE VIEW balance AS SELECT a.s - b.s AS d FROM (SELECT sum(x) AS s FROM pair_a) a, (SELECT sum(x) AS s FROM pair_b) b"
    )
    lake, seen, stop = platform.lake, [], threading.Event()

    def write():
        for place in range(60):
            with lake.commit("pair") as commit:
                for name in "ab":
                    table = lake.table(f"pair_{name}")
                    commit.append(table, [lake.write(table, pa.table({"x": pa.array([place], pa.int64())}))])
            if place % 20 == 10:
                maintained(platform)
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        seen += [row[0] for row in platform.execute("SELECT d FROM balance")]
    writer.join()
    assert set(seen) <= {0, None}
    assert rows(platform, "SELECT d FROM balance") == [(0,)]


@pytest.mark.spark
def test_cv_27_two_versions_can_be_compared(platform):
    platform.execute("CREATE STREAM versions (k INT)")
    platform.execute("CREATE VIEW versioned AS SELECT k, count(*) AS n FROM versions GROUP BY k")
    platform.execute("INSERT INTO versions VALUES (1), (2)")
    before = platform.lake.snapshot().id
    maintained(platform)
    platform.execute("INSERT INTO versions VALUES (2), (3)")
    difference = f"SELECT * FROM versioned EXCEPT SELECT * FROM versioned AT (VERSION => {before})"
    assert rows(platform, difference) == [(2, 2), (3, 1)]
    assert rows(platform, f"SELECT * FROM versioned AT (VERSION => {before})") == [(1, 1), (2, 1)]


@pytest.mark.spark
def test_cv_33_groups_of_other_days_are_kept_and_not_reported(platform):
    platform.execute("CREATE STREAM dated (day DATE, x INT)")
    began = rows(platform, "SELECT current_date()")
    platform.execute("CREATE VIEW today AS SELECT n FROM (SELECT day, count(*) AS n FROM dated GROUP BY day) WHERE day = current_date()")
    platform.execute("CREATE VIEW of_today AS SELECT count(*) AS n FROM dated WHERE day = current_date()")
    platform.execute("INSERT INTO dated SELECT date_sub(current_date(), CAST(id AS INT)), 1 FROM range(3)")
    maintained(platform)
    platform.execute("INSERT INTO dated SELECT current_date(), 1")
    found = rows(platform, "SELECT * FROM today")
    below = rows(platform, "SELECT n FROM of_today")
    assert found == below == [(2,)] or began != rows(platform, "SELECT current_date()"), "unless it was midnight"
    (state,) = [found for found in platform.lake.tables() if found.name.relation.startswith("today__state")]
    assert sum(file.record_count for file in platform.lake.scan(state, platform.lake.snapshot()).files) == 3


@pytest.mark.spark
def test_cv_30_readers_and_a_writer_at_once_see_counts_grow(platform):
    platform.execute("CREATE STREAM growing (x INT)")
    platform.execute("CREATE VIEW grown AS SELECT count(*) AS n FROM growing")
    stop, seen = threading.Event(), [[], [], []]

    def read(counts):
        while not stop.is_set():
            counts += [row[0] for row in platform.execute("SELECT n FROM grown")]

    readers = [threading.Thread(target=read, args=(counts,)) for counts in seen]
    for reader in readers:
        reader.start()
    for place in range(40):
        platform.execute("INSERT INTO growing VALUES (1), (2)")
        if place % 10 == 9:
            maintained(platform)
    stop.set()
    for reader in readers:
        reader.join()
    assert all(counts == sorted(counts) for counts in seen)
    assert rows(platform, "SELECT n FROM grown") == [(80,)]


@pytest.mark.spark
def test_cv_34_distinct_values_are_counted_over_overlapping_chunks(platform):
    platform.execute("CREATE VIEW different AS SELECT count(DISTINCT x) AS d, approx_count_distinct(x) AS a FROM s")
    platform.execute("INSERT INTO s VALUES (1, 1, 1), (1, 1, 2)")
    maintained(platform)
    platform.execute("INSERT INTO s VALUES (1, 1, 2), (1, 1, 3)")
    assert rows(platform, "SELECT * FROM different") == [(3, 3)]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_cv_36_the_queries_of_aim(tmp_path, spark_server, monkeypatch):
    monkeypatch.setattr(aim, "CUSTOMERS", 500)
    with aim.prepare(tmp_path, len(aim.AIM)) as platform:
        for number in range(3):
            aim.append(platform, aim.events(number, rows=20_000))
            aim.check(platform, len(aim.AIM))
            maintained(platform)
        aim.check(platform, len(aim.AIM))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_cv_37_the_queries_of_tpch_by_every_strategy(tmp_path, spark_server):
    tpch.generate(tmp_path / "tpch", 0.002)
    with Platform.create(tmp_path / "lake") as platform:
        rows = views_tpch.create_tables(platform, tmp_path / "tpch")
        names = views_tpch.create_views(platform)
        for piece in views_tpch.pieces(rows, 3):
            views_tpch.append(platform, piece)
            maintained(platform)
        views_tpch.check(platform, names)
