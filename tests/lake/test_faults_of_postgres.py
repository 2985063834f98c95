"""PostgreSQL that goes away, comes back, hangs or refuses: a commit is made once or not at all, and what can't be known is said."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
import traceback
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CatalogueError, OutcomeUnknown, PlatformError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue import database
from platform_plugin.lake.commit import commit as commits
from platform_plugin.lake.lake import Lake

pytestmark = pytest.mark.postgres

ROWS = pa.table({"id": [1, 2, 3]})
# A commit that takes a while after everything was written: what is sent then meets a server in the midst of committing.
SLOW_COMMIT = """
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON ducklake_snapshot DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle();
"""


def found(url: str) -> Lake:
    lake = Lake.create(url)
    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(ROWS))
        commit.append(table, [lake.write(table, ROWS)])
    return lake


def append(lake: Lake) -> None:
    table = lake.table("t")
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, ROWS)])


def run_slowly(database, seconds: float = 2.0) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(SLOW_COMMIT.format(seconds=seconds).encode())


def run_at_normal_speed(database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("DROP TRIGGER dawdle ON ducklake_snapshot")


def when_committing(database, action) -> threading.Thread:
    """Do something as soon as a session of the database is inside its COMMIT."""

    def watch() -> None:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            for _ in range(400):
                row = connection.execute("SELECT pid FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'").fetchone()
                if row:
                    break
                time.sleep(0.02)
            else:
                return
        action(row[0])

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


class Proxy:
    """A wire to the server that can be cut: the client sees it at once, the server goes on."""

    def __init__(self, port: int) -> None:
        self.server = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                pair = client, socket.create_connection(("127.0.0.1", self.server))
                self.pairs.append(pair)
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                for ready in select.select([client, server], [], [], 0.2)[0]:
                    if not (data := ready.recv(65536)):
                        return
                    (server if ready is client else client).sendall(data)

    def cut(self) -> None:
        """Hang up on the clients; the server's ends stay open, as after a lost route."""
        for client, _ in self.pairs:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.close()
        for pair in self.pairs:
            for end in pair:
                end.close()


def test_a_commit_whose_answer_was_lost_is_found_even_while_the_server_is_still_at_it(postgres_database, tmp_path):
    url = postgres_database.lake_url(tmp_path / "data")
    found(url).close()
    run_slowly(postgres_database)
    proxy = Proxy(postgres_database.port)
    with Lake.open(url.replace(f":{postgres_database.port}/", f":{proxy.port}/")) as lake:
        cutter = when_committing(postgres_database, lambda _: proxy.cut())
        append(lake)  # finds that it was made, although the connection broke before the server had decided
        cutter.join()
        assert lake.read("t").num_rows == 6
        assert lake.snapshot().id == 2
    proxy.close()


def test_a_commit_whose_backend_was_ended_was_not_made_and_can_be_repeated(postgres_database, tmp_path):
    lake = found(postgres_database.lake_url(tmp_path / "data"))
    run_slowly(postgres_database)

    def end(pid: int) -> None:
        with psycopg.connect(postgres_database.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])

    ender = when_committing(postgres_database, end)
    with pytest.raises(CatalogueError) as raised:
        append(lake)
    ender.join()
    assert not isinstance(raised.value, OutcomeUnknown)
    run_at_normal_speed(postgres_database)
    assert lake.snapshot().id == 1
    append(lake)
    assert lake.read("t").num_rows == 6
    lake.close()


def test_a_server_that_stops_inside_a_commit_and_comes_back(private_postgres, tmp_path):
    database = private_postgres.database("postgres")
    lake = found(database.lake_url(tmp_path / "data"))
    run_slowly(database)

    def crash(_: int) -> None:
        private_postgres.stop("immediate")
        private_postgres.start()

    crasher = when_committing(database, crash)
    with pytest.raises(CatalogueError) as raised:
        append(lake)
    crasher.join()
    assert not isinstance(raised.value, OutcomeUnknown)
    run_at_normal_speed(database)
    assert lake.read("t").num_rows == 3
    append(lake)
    assert lake.read("t").num_rows == 6
    lake.close()


def test_a_server_that_stays_away_leaves_the_outcome_unknown_and_says_so(private_postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(commits, "_RECONNECT_SECONDS", 1.0)
    database = private_postgres.database("postgres")
    lake = found(database.lake_url(tmp_path / "data"))
    run_slowly(database)
    stopper = when_committing(database, lambda _: private_postgres.stop("immediate"))
    with pytest.raises(OutcomeUnknown, match="may or may not have been made") as raised:
        append(lake)
    stopper.join()
    private_postgres.start()
    identity = raised.value.hint.split()[2]
    assert lake.read("t").num_rows == 3
    assert all(identity not in (record.notes or "") for record in lake.commits())
    lake.close()


def test_a_server_that_stops_between_a_commit_s_first_and_last_line(private_postgres, tmp_path):
    database = private_postgres.database("postgres")
    lake = found(database.lake_url(tmp_path / "data"))
    table = lake.table("t")
    commit = lake.commit("append")
    commit.append(table, [lake.write(table, ROWS)])
    private_postgres.stop("fast")
    with pytest.raises(CatalogueError, match="can't be reached") as raised, commit:
        pass
    assert raised.value.hint
    started = time.monotonic()
    for call in (lambda: lake.read("t"), lake.snapshot, lambda: Lake.open(str(database.lake_url(tmp_path / "data")))):
        with pytest.raises(CatalogueError):
            call()
    assert time.monotonic() - started < 25
    private_postgres.start()
    assert lake.read("t").num_rows == 3  # the same object goes on
    append(lake)
    private_postgres.kill()
    private_postgres.start()
    assert lake.read("t").num_rows == 6
    append(lake)
    assert lake.read("t").num_rows == 9
    lake.close()


def test_a_session_that_holds_the_writers_lock_is_an_error_in_time(postgres_database, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.5)
    lake = found(postgres_database.lake_url(tmp_path / "data"))
    with lake.writing():
        started = time.monotonic()
        with pytest.raises(CatalogueError, match="is locked") as raised:
            append(lake)
        # By itself it waits for 30 seconds.
        assert time.monotonic() - started < 25
        assert raised.value.hint
        assert lake.read("t").num_rows == 3
    append(lake)
    assert lake.read("t").num_rows == 6
    lake.close()


def test_a_deadlock_with_another_client_is_tried_again(postgres_database, tmp_path):
    lake = found(postgres_database.lake_url(tmp_path / "data"))
    held, go = threading.Event(), threading.Event()

    def client() -> None:
        # What DuckDB's commits do, in the order that meets ours head-on.
        with psycopg.connect(postgres_database.dsn) as connection:
            connection.execute("UPDATE ducklake_table_stats SET record_count = record_count")
            held.set()
            for _ in range(200):
                if connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                    break
                time.sleep(0.02)
            connection.execute(
                "INSERT INTO ducklake_snapshot SELECT 2, now(), schema_version, next_catalog_id, next_file_id"
                " FROM ducklake_snapshot WHERE snapshot_id = 1"
            )
            connection.execute("INSERT INTO ducklake_snapshot_changes VALUES (2, '', NULL, NULL, NULL)")
        go.set()

    other = threading.Thread(target=client)
    other.start()
    held.wait()
    append(lake)
    other.join()
    assert go.is_set()
    assert lake.read("t").num_rows == 6
    assert lake.snapshot().id == 3
    lake.close()


def test_a_value_that_the_catalogue_refuses_is_no_lost_race(postgres_database, tmp_path):
    lake = found(postgres_database.lake_url(tmp_path / "data"))
    started = time.monotonic()
    with pytest.raises(PlatformError, match="refused a row"), lake.commit("bad") as commit:
        commit.put(c.PLATFORM_LAKE, key="k", value="zero \0 inside")
    assert time.monotonic() - started < 1
    assert lake.snapshot().id == 1
    lake.close()


def test_rows_with_zero_characters_can_be_kept(postgres_database, tmp_path):
    with Lake.create(postgres_database.lake_url(tmp_path / "data")) as lake:
        rows = pa.table({"s": ["a\0b", "\0", "z"]})
        with lake.commit("load") as commit:
            table = commit.create_table("t", lake.columns_of(rows))
            commit.append(table, [lake.write(table, rows)])
        assert lake.read("t").equals(rows)


SECRET = "s3cret-Pa%ss/w@rd"


def test_refusals_are_quick_clear_and_keep_the_password(private_postgres, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    private_postgres.execute(f"CREATE USER reader PASSWORD '{SECRET}'")
    hba = private_postgres.folder / "data" / "pg_hba.conf"
    hba.write_text("host all reader 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n")
    private_postgres.execute("SELECT pg_reload_conf()")
    time.sleep(0.3)
    port, data = private_postgres.port, tmp_path / "data"
    secret = quote(SECRET, safe="")
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
        places = {
            f"platform://reader:{secret}wrong@127.0.0.1:{port}/postgres?data={data}": "refused the password",
            f"platform://reader@127.0.0.1:{port}/postgres?data={data}": "wants a password",
            f"platform://reader:{secret}@127.0.0.1:{port}/no_such?data={data}": "lacks something",
            f"platform://reader:{secret}@127.0.0.1:{port}/postgres?data={data}": "",
            f"platform://reader:{secret}@127.0.0.1:1/postgres?data={data}": "can't be reached",
            f"platform://reader:{secret}@no.such.host.invalid/postgres?data={data}": "can't be reached",
            f"platform://reader:{secret}@127.0.0.1:{silent.getsockname()[1]}/postgres?data={data}": "can't be reached",
            f"platform://reader:{secret}@127.0.0.1:port/postgres?data={data}": "",
            f"platform://reader:{secret}@127.0.0.1:{port}/postgres?data={data}&nonsense=1": "unknown option",
            f"platform://reader:{secret}@127.0.0.1:{port}/postgres": "data folder",
            f"postgresql://reader:{secret}@127.0.0.1:{port}/postgres": "not a lake URL scheme",
            f"platform:/reader:{secret}@127.0.0.1/postgres": "",
        }
        for url, words in places.items():
            for door in (Lake.open, Lake.create, Lake.adopt)[: 1 if str(silent.getsockname()[1]) in url else 3]:
                started = time.monotonic()
                with pytest.raises(PlatformError) as raised:
                    door(url)
                assert time.monotonic() - started < 60, url
                error = raised.value
                assert words in str(error), (url, str(error))
                assert error.hint, str(error)
                shown = "\n".join([str(error), repr(error), *traceback.format_exception(error), caplog.text])
                for form in (SECRET, secret):
                    assert form not in shown, (url, door)
    assert not data.exists()
    with psycopg.connect(private_postgres.database("postgres").dsn, autocommit=True) as connection:
        # No right to make schemas: one that is there must do.
        connection.execute("GRANT CREATE, USAGE ON SCHEMA public TO reader")
    with Lake.create(f"platform://reader:{secret}@127.0.0.1:{port}/postgres?data={data}") as lake:
        assert SECRET not in repr(lake) + str(lake.location) + repr(lake.location) + repr(lake.engine) + repr(lake.__dict__)
        assert secret not in repr(lake) + str(lake.location) + repr(lake.location) + repr(lake.engine) + repr(lake.__dict__)
        with lake.reading() as connection, pytest.raises(sa.exc.SQLAlchemyError) as raised:
            connection.execute(sa.text("SELECT * FROM nowhere"))
        assert SECRET not in str(raised.value)


def test_failures_leak_no_sessions(postgres_database, tmp_path):
    lake = found(postgres_database.lake_url(tmp_path / "data"))
    table = lake.table("t")
    for _ in range(10):
        commit = lake.commit("bad")
        commit.append(table, [lake.write(table, ROWS)])
        commit.drop_table(table)
        with pytest.raises(PlatformError), commit:
            pass
        with pytest.raises(KeyboardInterrupt), lake.commit("interrupted"):
            raise KeyboardInterrupt
        with pytest.raises(PlatformError):
            Lake.create(postgres_database.lake_url(tmp_path / "data"))
    with psycopg.connect(postgres_database.dsn, autocommit=True) as connection:
        others = "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        rows = connection.execute(others).fetchall()
        # A session that its client has closed is listed until the server has ended it.
        deadline = time.monotonic() + 20
        while len(rows) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
            rows = connection.execute(others).fetchall()
    assert [row[0] for row in rows] == ["idle"] * len(rows)
    assert len(rows) <= 1
    lake.close()
