"""One list of statements over all that Spark reads and writes, for lakes wherever their files are and whoever reads these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.engine.limits import Limits
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.relations.streams.feeds.ingest import run_ingest

if TYPE_CHECKING:
    from platform_plugin.platform import Platform

# With these the smallest statement goes to Spark, and what it writes is written there.
LIMITS = Limits(before_image_rows=0, plan_positions=0, task_least_rows=1, client_change_rows=0, small_table_bytes=0)
# A function that the kernel in this process does not have, so that a query which uses it goes to Spark.
SPARK = "sha2('', 256) IS NOT NULL"

CREATE = """
CREATE TABLE people (id BIGINT NOT NULL, name STRING, born DATE, paid DECIMAL(12, 2), seen TIMESTAMP, tags ARRAY<STRING>);
INSERT INTO people VALUES (1, 'Ada', DATE'1815-12-10', 1.50, TIMESTAMP'2024-01-01 10:00:00', ARRAY('a', 'b'));
INSERT INTO people VALUES (2, NULL, NULL, NULL, NULL, NULL);
INSERT INTO people
  SELECT id + 10, concat('n', id), DATE'2000-01-01', cast(id AS DECIMAL(12, 2)) / 4, NULL, ARRAY(sha2(cast(id AS STRING), 224))
  FROM (SELECT explode(sequence(1, 40)) AS id) AS numbers;
CREATE TABLE copies AS SELECT id, name, sha2(name, 256) AS code FROM people WHERE id > 12;
UPDATE people SET name = concat(name, '!'), paid = paid + 1 WHERE id % 5 = 0 AND sha2(name, 256) IS NOT NULL;
DELETE FROM people WHERE id % 7 = 0 AND sha2(cast(id AS STRING), 256) IS NOT NULL;
ALTER TABLE people ADD COLUMN extra INT DEFAULT 3;
INSERT INTO people (id, name) SELECT max(id) + 1, sha2('x', 256) FROM people;
CREATE STREAM clicks (uid BIGINT, page STRING, score DOUBLE) WITH (retention_rows = 10000);
INSERT INTO clicks VALUES (1, 'a', 0.5), (2, 'b', 1.5), (1, 'c', NULL);
CREATE VIEW by_page WITH (engine = 'spark_sql') AS SELECT page, count(*) AS n, sum(score) AS s FROM clicks GROUP BY page;
CREATE VIEW coded AS SELECT sha2(page, 256) AS code, count(*) AS n FROM clicks GROUP BY sha2(page, 256);
CREATE VIEW named AS SELECT p.name, count(*) AS n, max(c.score) AS most FROM clicks c JOIN people p ON c.uid = p.id GROUP BY p.name;
CREATE SAMPLE few ON clicks SIZE 100;
"""

MORE = """
INSERT INTO clicks VALUES (2, 'a', 2.5), (11, 'd', 3.5);
UPDATE people SET name = 'Countess' WHERE id = 1 AND sha2(name, 256) IS NOT NULL;
REFRESH VIEW by_page;
REFRESH VIEW named;
"""

QUERIES = (
    f"SELECT * FROM people WHERE {SPARK} ORDER BY id",
    f"SELECT count(*), sum(paid), min(born), max(sha2(name, 256)) FROM people WHERE {SPARK}",
    f"SELECT count(*) AS n FROM people AT (VERSION => 4) WHERE {SPARK}",
    f"SELECT id, name FROM people WHERE id BETWEEN 14 AND 22 AND {SPARK} ORDER BY id",
    "SELECT id, name, code FROM copies ORDER BY id",
    f"SELECT page, n, s FROM by_page WHERE {SPARK} ORDER BY page",
    "SELECT code, n FROM coded ORDER BY code",
    f"SELECT name, n, most FROM named WHERE {SPARK} ORDER BY name",
    f"SELECT page, count(*) FROM few WHERE {SPARK} GROUP BY page ORDER BY page",
    f"SELECT id, name, _change_type, _weight FROM changes(people, 4) WHERE {SPARK} ORDER BY id, _weight",
    f"SELECT id, name, _change_type, _weight FROM changes(people, 4, steps => true) WHERE {SPARK} ORDER BY id, _snapshot, _weight",
    f"SELECT a.id, b.code FROM people a JOIN copies b ON a.id = b.id WHERE {SPARK} ORDER BY a.id",
)


def run_statements(platform: Platform, sources: str) -> list[tuple[str, Any]]:
    """Run all of it, with files of other programs that are in a folder; the answers, each beside its query."""
    platform.work.limits = LIMITS
    for statement in CREATE.split(";\n"):
        if statement.strip():
            platform.execute(statement)
    platform.execute(f"COPY copies (id, name) FROM '{sources}/people-*.csv' (HEADER)")
    platform.execute(f"COPY copies (id, name, code) FROM '{sources}/people.parquet'")
    platform.execute(f"COPY copies (id, name) FROM '{sources}/people.jsonl'")
    platform.execute(f"CREATE STREAM fed (id BIGINT, name STRING) FROM FILES '{sources}/feed-*.csv' (HEADER)")
    run_ingest(platform.work, "fed")
    first = answers(platform)
    for statement in MORE.split(";\n"):
        if statement.strip():
            platform.execute(statement)
    platform.execute("REBUILD VIEW coded")
    done = run_maintenance(platform.work)
    assert not done.failed, done.failed
    platform.lake.merge("people")
    platform.lake.merge("copies")
    return [*first, *answers(platform), ("fed", sorted(platform.execute(f"SELECT id, name FROM fed WHERE {SPARK}")))]


def answers(platform: Platform) -> list[tuple[str, Any]]:
    """The rows of all queries."""
    return [(query, list(platform.execute(query))) for query in QUERIES]


def write_sources(put: Any) -> None:
    """Write the files of other programs by `put(name, content)`."""
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    put("people-1.csv", b'id,name\n101,Grace\n102,"Hopper, G"\n')
    put("people-2.csv.gz", gzip.compress(b"id,name\r\n103,\r\n\r\n104,Linus\r\n"))
    put("people.jsonl", '{"id": 105, "name": "Zoë"}\n\n{"name": "x", "id": 106}\n'.encode())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"code": ["c1", None], "id": pa.array([107, 108], pa.int32()), "name": ["p", "q"]}), sink)
    put("people.parquet", sink.getvalue().to_pybytes())
    put("feed-1.csv", b"id,name\n1,one\n2,two\n")
    put("feed-2.csv", b"name,id\nthree,3\nbad,x\n")
