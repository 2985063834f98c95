"""Reflection, none of which needs Spark but the columns of views."""

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from platform_plugin.dialect.types import Document

DEFINITION = """
CREATE TABLE everything (
    id INT PRIMARY KEY,
    region STRING NOT NULL DEFAULT 'eu' COMMENT 'where',
    rate DECIMAL(9,2),
    at TIMESTAMP,
    seen TIMESTAMP_NTZ,
    place STRUCT<lat: DOUBLE, lon: DOUBLE>,
    names MAP<STRING, INT>,
    tags ARRAY<STRING>,
    u UUID,
    doc JSON
) COMMENT 'all of it'
"""


@pytest.fixture
def connection(engine):
    with engine.connect() as connection:
        connection.exec_driver_sql(DEFINITION)
        connection.exec_driver_sql("CREATE STREAM posts (uid INT) WITH (retention_rows = 5)")
        connection.exec_driver_sql("CREATE SCHEMA shop")
        connection.exec_driver_sql("CREATE TABLE shop.orders (a INT, b INT, PRIMARY KEY (b, a))")
        yield connection


def test_names(connection):
    inspector = sa.inspect(connection)
    assert sorted(inspector.get_schema_names()) == ["main", "shop"]
    assert sorted(inspector.get_table_names()) == ["everything", "posts"]
    assert inspector.get_table_names(schema="shop") == ["orders"]
    assert inspector.get_view_names() == []
    assert inspector.default_schema_name == "main"
    assert inspector.has_schema("shop")
    assert not inspector.has_schema("nope")
    assert [inspector.has_table(name) for name in ("everything", "posts", "orders")] == [True, True, False]
    assert inspector.has_table("orders", schema="shop")


def test_columns(connection):
    columns = {column["name"]: column for column in sa.inspect(connection).get_columns("everything")}
    kinds = {name: type(column["type"]) for name, column in columns.items()}
    assert kinds == {
        "id": sa.Integer,
        "region": sa.String,
        "rate": sa.Numeric,
        "at": sa.DateTime,
        "seen": sa.DateTime,
        "place": Document,
        "names": Document,
        "tags": sa.ARRAY,
        "u": sa.Uuid,
        "doc": sa.JSON,
    }
    assert (columns["rate"]["type"].precision, columns["rate"]["type"].scale) == (9, 2)
    assert (columns["at"]["type"].timezone, columns["seen"]["type"].timezone) == (True, False)
    assert [columns[name]["nullable"] for name in ("id", "region", "rate")] == [False, False, True]
    assert (columns["region"]["default"], columns["region"]["comment"]) == ("'eu'", "where")


def test_keys_and_comments(connection):
    inspector = sa.inspect(connection)
    assert inspector.get_pk_constraint("orders", schema="shop") == {"constrained_columns": ["b", "a"], "name": None}
    assert inspector.get_pk_constraint("posts") == {"constrained_columns": [], "name": None}
    assert inspector.get_table_comment("everything") == {"text": "all of it"}
    assert inspector.get_table_options("posts") == {"platform_stream": True, "platform_retention_rows": 5, "platform_on_overrun": "abort"}
    for nothing in (inspector.get_foreign_keys, inspector.get_indexes, inspector.get_unique_constraints, inspector.get_check_constraints):
        assert nothing("everything") == []


def test_what_does_not_exist_is_no_such_table(connection):
    inspector = sa.inspect(connection)
    for ask in (
        inspector.get_columns,
        inspector.get_pk_constraint,
        inspector.get_foreign_keys,
        inspector.get_indexes,
        inspector.get_table_comment,
        inspector.get_table_options,
        inspector.get_view_definition,
    ):
        with pytest.raises(exc.NoSuchTableError, match="nope"):
            ask("nope")
    with pytest.raises(exc.NoSuchTableError, match=r"shop\.posts"):
        inspector.get_columns("posts", schema="shop")
    with pytest.raises(exc.NoSuchTableError):
        sa.Table("nope", sa.MetaData(), autoload_with=connection)


def test_an_inspector_stays_at_its_snapshot(connection):
    inspector = sa.inspect(connection)
    assert "later" not in inspector.get_table_names()
    connection.exec_driver_sql("CREATE TABLE later (a INT)")
    assert not inspector.has_table("later")
    inspector.clear_cache()
    assert inspector.has_table("later")


def test_a_whole_lake_is_reflected_and_made_again(connection, engine):
    metadata = sa.MetaData()
    metadata.reflect(connection)
    before = {name: [str(column) for column in sa.inspect(connection).get_columns(name)] for name in metadata.tables}
    metadata.drop_all(connection)
    metadata.create_all(connection)
    after = {name: [str(column) for column in sa.inspect(connection).get_columns(name)] for name in metadata.tables}
    assert after == before
    assert sa.inspect(connection).get_pk_constraint("everything")["constrained_columns"] == ["id"]
    assert engine.dialect.get_stream_names(connection) == ["posts"]


def test_documents_go_in_as_dicts(connection):
    everything = sa.Table("everything", sa.MetaData(), autoload_with=connection)
    row = {"id": 1, "region": "eu", "place": {"lat": 1.0, "lon": 2.0}, "names": {"a": 1}, "doc": {"x": [1]}}
    connection.execute(everything.insert(), row)
    kept = connection.connection.dbapi_connection.platform.lake.read("everything").to_pylist(maps_as_pydicts="strict")[0]
    assert (kept["place"], kept["names"], kept["doc"]) == (row["place"], row["names"], '{"x": [1]}')
