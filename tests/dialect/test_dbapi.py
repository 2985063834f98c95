"""PEP 249, point by point, without Spark."""

import datetime as dt
import threading
from uuid import uuid4

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin import Platform, errors
from platform_plugin.dialect import dbapi
from platform_plugin.dialect.faults import to_dbapi_error


@pytest.fixture
def connection(lake):
    with dbapi.connect(lake) as connection:
        yield connection


@pytest.fixture
def cursor(connection):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE users (id INT NOT NULL, name STRING, price DECIMAL(9,2))")
        yield cursor


def stored(connection, table="users"):
    return connection.platform.lake.read(table).to_pylist()


def commits(connection):
    return len(connection.platform.lake.commits())


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "named")


def test_the_exceptions_form_the_tree_that_pep_249_draws():
    assert issubclass(dbapi.Error, Exception)
    assert not issubclass(dbapi.Warning, dbapi.Error)
    assert dbapi.InterfaceError.__bases__ == (dbapi.Error,)
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"):
        assert getattr(dbapi, name).__bases__ == (dbapi.DatabaseError,)
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)


def test_constructors_make_values():
    assert dbapi.Date(2026, 1, 2) == dt.date(2026, 1, 2)
    assert dbapi.DateFromTicks(0) == dt.date(1970, 1, 1)
    assert dbapi.TimestampFromTicks(1.5) == dt.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=dt.UTC)
    assert dbapi.TimeFromTicks(60) == dt.time(0, 1)
    assert dbapi.Binary(bytearray(b"x")) == b"x"


def test_a_description_names_columns_and_families(cursor):
    cursor.execute("SHOW SNAPSHOTS")
    families = {column[0]: column[1] for column in cursor.description}
    assert families["snapshot"] == dbapi.NUMBER
    assert families["committed_at"] == dbapi.DATETIME
    assert families["message"] == dbapi.STRING
    assert families["message"] != dbapi.NUMBER
    assert all(len(column) == 7 for column in cursor.description)


def test_statements_without_rows_have_no_description(cursor):
    cursor.execute("INSERT INTO users VALUES (1, 'a', 1.5), (2, 'b', NULL)")
    assert (cursor.description, cursor.rowcount) == (None, 2)
    with pytest.raises(dbapi.ProgrammingError, match="no rows to fetch"):
        cursor.fetchone()


def test_rows_are_fetched_one_by_one_in_parts_and_at_once(cursor):
    for name in "abcdefg":
        cursor.execute(f"CREATE SCHEMA {name}")
    cursor.execute("SHOW SCHEMAS")
    names = [cursor.fetchone()[0]]
    assert cursor.rownumber == 1
    names += [row[0] for row in cursor.fetchmany(2)]
    names += [row[0] for row in cursor.fetchmany()]
    cursor.arraysize = 2
    names += [row[0] for row in cursor.fetchmany()]
    names += [row[0] for row in cursor.fetchall()]
    assert sorted(names) == [*"abcdefg", "main"]
    assert cursor.fetchone() is None
    assert cursor.fetchmany(3) == []
    assert cursor.fetchall() == []
    assert [row[0] for row in cursor.execute("SHOW SCHEMAS LIKE 'a'")] == ["a"]


def test_rows_come_as_arrow(cursor):
    assert cursor.execute("SHOW SCHEMAS").fetch_arrow_table().column("schema").to_pylist() == ["main"]
    assert isinstance(cursor.execute("SHOW SCHEMAS").fetch_record_batch(), pa.RecordBatchReader)
    cursor.execute("SHOW SCHEMAS").fetchone()
    with pytest.raises(dbapi.InterfaceError, match="fetched already"):
        cursor.fetch_arrow_table()


def test_many_rows_are_one_commit_and_one_file(connection, cursor):
    before = commits(connection)
    rows = [{"i": i, "n": f"user {i}"} for i in range(5000)]
    cursor.executemany("INSERT INTO users (id, name) VALUES (:i, :n)", rows)
    assert cursor.rowcount == 5000
    assert commits(connection) == before + 1
    lake = connection.platform.lake
    assert len(lake.scan(lake.table("users"), lake.snapshot()).files) == 1
    assert sorted(row["id"] for row in stored(connection)) == list(range(5000))


def test_many_rows_by_position_with_literals_between(connection, cursor):
    cursor.executemany("INSERT INTO users VALUES (?, 'same', ?)", [(1, 2), (2, None)])
    assert [(row["id"], row["name"], str(row["price"])) for row in stored(connection)] == [(1, "same", "2.00"), (2, "same", "None")]


def test_one_bad_row_of_many_leaves_none(connection, cursor):
    with pytest.raises(dbapi.DataError, match="out of range") as caught:
        cursor.executemany("INSERT INTO users (id) VALUES (:id)", [{"id": 1}, {"id": 2**40}])
    assert "^" in str(caught.value)
    assert stored(connection) == []


def test_no_sets_of_parameters_do_nothing(connection, cursor):
    before = commits(connection)
    assert cursor.executemany("INSERT INTO users (id) VALUES (:id)", []).rowcount == 0
    assert commits(connection) == before


def test_executemany_refuses_statements_that_give_rows(cursor):
    with pytest.raises(dbapi.ProgrammingError, match="can't run a statement that gives rows"):
        cursor.executemany("SHOW SCHEMAS", [{}, {}])


@pytest.mark.parametrize(
    ("sql", "parameters", "kind", "said"),
    [
        ("SELEC 1", None, dbapi.ProgrammingError, "unknown statement SELEC"),
        ("SHOW COLUMNS FROM usres", None, dbapi.ProgrammingError, "did you mean main.users"),
        ("CREATE TABLE users (a INT)", None, dbapi.ProgrammingError, "exists already"),
        ("INSERT INTO users (id) VALUES (:i)", {}, dbapi.ProgrammingError, 'parameter ":i" has no value'),
        ("INSERT INTO users (id) VALUES (:i)", {"i": 1, "j": 2}, dbapi.ProgrammingError, 'no parameter ":j"'),
        ("INSERT INTO users (id) VALUES (?)", [1, 2], dbapi.ProgrammingError, "2 values were given"),
        ("INSERT INTO users (id) VALUES (?)", {"i": 1}, dbapi.ProgrammingError, "has no value"),
        ("INSERT INTO users (id) VALUES (:i)", {"i": "x"}, dbapi.DataError, "no value for column"),
        ("INSERT INTO users (id) VALUES (:i)", {"i": None}, dbapi.IntegrityError, "holds NULL"),
        ("INSERT INTO users (id, name) VALUES (1, :n)", {"n": "\ud800"}, dbapi.DataError, "surrogate|bound|can.t|no value"),
    ],
)
def test_errors_say_what_the_platform_says(connection, cursor, sql, parameters, kind, said):  # noqa: PLR0917  pytest fills them
    before = commits(connection)
    with pytest.raises(kind, match=said) as caught:
        cursor.execute(sql, parameters)
    assert type(caught.value) is kind
    assert commits(connection) == before


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.NullRefused("any words"), dbapi.IntegrityError),
        (errors.WrongArguments("any words"), dbapi.ProgrammingError),
        (errors.InvalidValue('column "a" holds NULL'), dbapi.DataError),
        (errors.ResultTooLarge("any words"), dbapi.OperationalError),
        (errors.CommitConflict("any words"), dbapi.IntegrityError),
        (errors.ServerLost("any words"), dbapi.OperationalError),
        (errors.QueryFailed("any words"), dbapi.DatabaseError),
    ],
)
def test_an_error_is_known_by_its_class_and_not_by_its_words(error, kind):
    assert type(to_dbapi_error(error)) is kind


def test_an_error_keeps_its_caret_its_place_and_its_hint(cursor):
    with pytest.raises(dbapi.ProgrammingError) as caught:
        cursor.execute("SHOW COLUMNS\nFROM usres")
    assert "FROM usres\n         ^^^^^" in str(caught.value)
    assert (caught.value.line, caught.value.column) == (2, 6)
    assert caught.value.hint == "did you mean main.users?"
    assert caught.value.message == 'table "main.usres" does not exist at snapshot 1'


def test_wrong_parameters_of_one_set_among_many_are_refused(connection, cursor):
    for wrong in ({"i": 1}, {"id": 1, "more": 2}, [1]):
        with pytest.raises(dbapi.ProgrammingError):
            cursor.executemany("INSERT INTO users (id) VALUES (:id)", [{"id": 1}, wrong])
    assert stored(connection) == []


def test_everything_is_committed_at_once(connection, cursor):
    cursor.execute("INSERT INTO users (id) VALUES (1)")
    with pytest.warns(RuntimeWarning, match="can't undo"):
        connection.rollback()
    connection.commit()
    assert len(stored(connection)) == 1
    assert connection.autocommit is True
    connection.autocommit = True
    with pytest.raises(dbapi.NotSupportedError):
        connection.autocommit = False


def test_what_is_closed_stays_closed(lake):
    connection = dbapi.connect(lake)
    cursor = connection.cursor()
    other = connection.cursor()
    other.close()
    other.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        other.execute("SHOW SCHEMAS")
    connection.close()
    connection.close()
    for call in (connection.cursor, connection.commit, connection.ping, lambda: cursor.execute("SHOW SCHEMAS"), cursor.fetchall):
        with pytest.raises(dbapi.InterfaceError, match="is closed"):
            call()


def test_sizes_are_taken_and_ignored(cursor):
    cursor.setinputsizes([10])
    cursor.setoutputsize(10, 0)
    assert cursor.execute("SHOW SCHEMAS").fetchall()


def test_comments_alone_do_nothing(connection, cursor):
    before = commits(connection)
    cursor.execute("-- nothing\n-- at all")
    assert (cursor.description, commits(connection)) == (None, before)


def test_a_place_without_a_lake_is_an_operational_error(tmp_path):
    with pytest.raises(dbapi.DatabaseError, match="lake"):
        dbapi.connect(f"platform+local://{tmp_path}/nothing")
    with pytest.raises(dbapi.InterfaceError, match="needs the URL"):
        dbapi.connect()


def test_a_url_object_is_as_good_as_its_text(lake):
    with dbapi.connect(sa.make_url(lake)) as connection:
        assert connection.ping() is True


def test_values_of_every_type_are_kept(connection, cursor):
    cursor.execute(
        "CREATE TABLE kinds (a BOOLEAN, b BIGINT, c DOUBLE, d STRING, e BINARY, f DATE, g TIMESTAMP_NTZ, h TIMESTAMP, i TIME, "
        "j UUID, k ARRAY<INT>)"
    )
    known = uuid4()
    values = {
        "a": True,
        "b": -(2**63),
        "c": 1.5,
        "d": "x'\\\"`\x00é😀",
        "e": b"\x00\xff",
        "f": dt.date(2026, 1, 2),
        "g": dt.datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001  the column has no zone
        "h": dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "i": dt.time(1, 2, 3),
        "j": known,
        "k": [1, None],
    }
    for run in (cursor.execute, lambda sql, row: cursor.executemany(sql, [row])):
        run("INSERT INTO kinds VALUES (:a, :b, :c, :d, :e, :f, :g, :h, :i, :j, :k)", values)
    assert stored(connection, "kinds") == [values, values]


def test_threads_share_a_connection(connection, cursor):
    failures = []

    def work(number):
        try:
            with connection.cursor() as own:
                for _ in range(5):
                    own.execute("INSERT INTO users (id) VALUES (:i)", {"i": number})
                    assert own.execute("SHOW SCHEMAS").fetchall()
        except Exception as error:  # noqa: BLE001  whatever it is, the test must say it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(row["id"] for row in stored(connection)) == sorted(list(range(6)) * 5)


def test_the_platform_is_closed_with_its_only_connection(lake, monkeypatch):
    closed = []
    monkeypatch.setattr(Platform, "close", lambda platform: closed.append(platform))  # noqa: PLW0108  a method, so that it is bound
    connection = dbapi.connect(lake)
    assert closed == []
    connection.close()
    assert len(closed) == 1


def test_set_rule_holds_for_one_connection_of_an_engine(lake):
    def switched_off(connection):
        return [row.name for row in connection.execute(sa.text("SHOW RULES")) if not row.is_on]

    engine = sa.create_engine(lake, poolclass=sa.pool.QueuePool)
    try:
        with engine.connect() as one, engine.connect() as other:
            one.execute(sa.text("SET RULE lookup OFF"))
            other.execute(sa.text("SET RULE pruning OFF"))
            assert (switched_off(one), switched_off(other)) == (["lookup"], ["pruning"])
            one.execute(sa.text("SET RULE ALL ON"))
            assert (switched_off(one), switched_off(other)) == ([], ["pruning"])
            assert one.connection.dbapi_connection.platform.work.rules_off == frozenset()
    finally:
        engine.dispose()
