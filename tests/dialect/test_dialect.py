"""The engine: one platform for all connections, one commit a statement, and no Spark until a query needs it."""

import threading

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import NullPool, QueuePool

from platform_plugin import Platform
from platform_plugin.dialect import PlatformDialect, dbapi


def platform_of(connection):
    return connection.connection.dbapi_connection.platform


def test_connections_share_one_platform(engine):
    with engine.connect() as one, engine.connect() as other:
        assert platform_of(one) is platform_of(other)
        first = platform_of(one)
    with engine.connect() as later:
        assert platform_of(later) is first


def test_disposing_closes_the_platform_after_its_last_connection(engine, monkeypatch):
    closed = []
    monkeypatch.setattr(Platform, "close", lambda platform: closed.append(platform))  # noqa: PLW0108  a method, so that it is bound
    with engine.connect() as held:
        before = platform_of(held)
        engine.dispose()
        assert closed == []
        with engine.connect() as fresh:
            assert platform_of(fresh) is not before
        assert held.exec_driver_sql("SHOW SCHEMAS").scalar() == "main"
    assert closed == [before]


def test_no_pool_unless_one_is_asked_for(lake, engine):
    assert isinstance(engine.pool, NullPool)
    pooled = sa.create_engine(lake, poolclass=QueuePool, pool_size=2, pool_pre_ping=True)
    for _ in range(3):
        with pooled.connect() as connection:
            assert connection.exec_driver_sql("SHOW SCHEMAS").scalar() == "main"
    pooled.dispose()


def test_threads_write_through_one_engine(engine):
    table = sa.Table("numbers", sa.MetaData(), sa.Column("n", sa.Integer))
    table.create(engine)
    failures = []

    def work(number):
        try:
            for _ in range(5):
                with engine.connect() as connection:
                    connection.execute(table.insert(), [{"n": number}, {"n": number}])
                    sa.inspect(connection).get_columns("numbers")
        except Exception as error:  # noqa: BLE001  whatever it is, the test must say it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with engine.connect() as connection:
        kept = platform_of(connection).lake.read("numbers").column("n").to_pylist()
    assert sorted(kept) == sorted(list(range(6)) * 10)


def test_every_statement_commits_and_nothing_rolls_back(engine):
    table = sa.Table("numbers", sa.MetaData(), sa.Column("n", sa.Integer))
    with engine.connect() as connection, connection.begin() as transaction:
        table.create(connection)
        connection.execute(table.insert().values(n=1))
        transaction.rollback()
        assert platform_of(connection).lake.read("numbers").num_rows == 1
        assert connection.get_isolation_level() == "AUTOCOMMIT"
    with engine.connect() as connection, pytest.raises(exc.ArgumentError, match="SERIALIZABLE"):
        connection.execution_options(isolation_level="SERIALIZABLE")


def test_savepoints_are_refused(engine):
    with engine.connect() as connection, connection.begin(), pytest.raises(exc.CompileError, match="no savepoints"):
        connection.begin_nested()


def test_many_rows_are_one_commit(engine):
    table = sa.Table("numbers", sa.MetaData(), sa.Column("n", sa.Integer), sa.Column("t", sa.String))
    with engine.connect() as connection:
        table.create(connection)
        before = len(platform_of(connection).lake.commits())
        assert connection.execute(table.insert(), [{"n": n, "t": "x"} for n in range(100)]).rowcount == 100
        assert connection.execute(table.insert().values([{"n": n, "t": "y"} for n in range(100)])).rowcount == 100
        assert len(platform_of(connection).lake.commits()) == before + 2


def test_an_insert_without_values_takes_the_defaults(engine):
    table = sa.Table("numbers", sa.MetaData(), sa.Column("n", sa.Integer, server_default="7"), sa.Column("t", sa.String))
    with engine.connect() as connection:
        table.create(connection)
        connection.execute(table.insert().values())
        assert platform_of(connection).lake.read("numbers").to_pylist() == [{"n": 7, "t": None}]


def test_errors_keep_the_caret(engine):
    with engine.connect() as connection, pytest.raises(exc.ProgrammingError) as caught:
        connection.execute(sa.text("SHOW COLUMNS FROM usres"))
    assert "SHOW COLUMNS FROM usres\n                      ^^^^^" in str(caught.value)
    assert isinstance(caught.value.orig, dbapi.ProgrammingError)
    assert caught.value.orig.column == 19


def test_a_password_reaches_the_lake_and_no_message():
    engine = sa.create_engine("platform://me:s3cr%2Ft@127.0.0.1:1/db?data=/nowhere")
    _, arguments = engine.dialect.create_connect_args(engine.url)
    assert "s3cr" not in repr(arguments)
    assert "s3cr%2Ft" in dbapi.lake_url(arguments["url"])
    with pytest.raises(exc.OperationalError) as caught:
        engine.connect()
    assert "s3cr" not in str(caught.value)


def test_definitions_run_on_connections_that_stream(engine):
    table = sa.Table("numbers", sa.MetaData(), sa.Column("n", sa.Integer))
    with engine.connect().execution_options(stream_results=True, yield_per=10) as connection:
        table.create(connection)
        connection.execute(table.insert(), [{"n": 1}])
        assert connection.execute(table.select()).all() == [(1,)]
        table.drop(connection)
    assert not sa.inspect(engine).has_table("numbers")


def test_a_ping_needs_no_spark(engine):
    with engine.connect() as connection:
        assert engine.dialect.do_ping(connection.connection.dbapi_connection) is True
        assert platform_of(connection).work.is_attached is False


def test_the_dialect_is_installed_under_both_schemes():
    for url in ("platform+local:///tmp/lake", "platform://user@host/db?data=s3://bucket/prefix"):
        assert sa.make_url(url).get_dialect() is PlatformDialect
