"""A rollback that can't undo says so, to whoever asked for it and to nobody else."""

from __future__ import annotations

import warnings

import pytest
import sqlalchemy as sa

from platform_plugin.dialect import dbapi

CANT = r"rollback\(\) can't undo a statement that has run"


def test_a_rollback_warns_once_of_what_stays(lake):
    with dbapi.connect(lake) as connection, connection.cursor() as cursor:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            connection.rollback()
            cursor.execute("CREATE TABLE t (a INT)")
            connection.commit()
            connection.rollback()
            cursor.execute("SHOW TABLES")
            connection.rollback()
        cursor.execute("INSERT INTO t VALUES (1)")
        with pytest.warns(RuntimeWarning, match=CANT) as warned:
            connection.rollback()
        assert [each.filename for each in warned] == [__file__]
        cursor.executemany("INSERT INTO t VALUES (?)", [(2,), (3,)])
        cursor.execute("INSERT INTO t VALUES (4)")
        with pytest.warns(RuntimeWarning, match="can't undo 2 statements that have run"):
            connection.rollback()
        assert connection.platform.lake.read("t").num_rows == 4


def fail_after(engine, statement):
    with engine.begin() as connection:
        connection.execute(statement)
        raise ZeroDivisionError


def test_sqlalchemy_warns_when_asked_and_is_silent_when_it_closes(lake):
    engine = sa.create_engine(lake)
    insert = sa.text("INSERT INTO t VALUES (1)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with engine.connect() as connection:
                connection.execute(sa.text("CREATE TABLE t (a INT)"))
            with engine.begin() as connection:
                connection.execute(insert)
        with engine.connect() as connection:
            connection.execute(insert)
            with pytest.warns(RuntimeWarning, match=CANT) as warned:
                connection.rollback()
        assert [each.filename for each in warned] == [__file__]
        with pytest.warns(RuntimeWarning, match=CANT), pytest.raises(ZeroDivisionError):
            fail_after(engine, insert)
    finally:
        engine.dispose()
