"""Definitions: what they compile to, and that the platform takes them."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateTable, DropSchema, SetColumnComment, SetTableComment

from platform_plugin.dialect import CreateStream, DropStream, PlatformDialect


def compiled(statement):
    return " ".join(str(statement.compile(dialect=PlatformDialect())).split())


def table(*columns, name="t", **options):
    return sa.Table(name, sa.MetaData(), *columns, **options)


def test_a_table_with_everything():
    made = table(
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("part", sa.String(5), primary_key=True),
        sa.Column("order", sa.Numeric(9, 2), nullable=False, server_default="1.5", comment="it's"),
        sa.Column("on", sa.Boolean, server_default=sa.true()),
        comment="a \\ b",
    )
    assert compiled(CreateTable(made, if_not_exists=True)) == (
        "CREATE TABLE IF NOT EXISTS t ( id INT NOT NULL, part STRING NOT NULL, `order` DECIMAL(9,2) DEFAULT 1.5 NOT NULL COMMENT 'it\\'s', "
        "`on` BOOLEAN DEFAULT true, PRIMARY KEY (id, part) ) COMMENT 'a \\\\ b'"
    )


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (sa.SmallInteger(), "SMALLINT"),
        (sa.Integer(), "INT"),
        (sa.BigInteger(), "BIGINT"),
        (sa.Float(), "DOUBLE"),
        (sa.Float(24), "FLOAT"),
        (sa.REAL(), "FLOAT"),
        (sa.Double(), "DOUBLE"),
        (sa.Numeric(), "DECIMAL(38,10)"),
        (sa.Numeric(9), "DECIMAL(9,0)"),
        (sa.Numeric(9, 2), "DECIMAL(9,2)"),
        (sa.DECIMAL(5, 1), "DECIMAL(5,1)"),
        (sa.Boolean(), "BOOLEAN"),
        (sa.String(), "STRING"),
        (sa.String(50), "STRING"),
        (sa.Text(), "STRING"),
        (sa.Unicode(5), "STRING"),
        (sa.UnicodeText(), "STRING"),
        (sa.CHAR(3), "STRING"),
        (sa.Enum("a", "b", name="ab"), "STRING"),
        (sa.LargeBinary(), "BINARY"),
        (sa.VARBINARY(5), "BINARY"),
        (sa.Date(), "DATE"),
        (sa.Time(), "TIME"),
        (sa.DateTime(), "TIMESTAMP_NTZ"),
        (sa.DateTime(timezone=True), "TIMESTAMP"),
        (sa.TIMESTAMP(timezone=True), "TIMESTAMP"),
        (sa.Interval(), "TIMESTAMP_NTZ"),
        (sa.Uuid(), "UUID"),
        (sa.UUID(), "UUID"),
        (sa.JSON(), "JSON"),
        (sa.ARRAY(sa.Integer), "ARRAY<INT>"),
        (sa.ARRAY(sa.String, dimensions=2), "ARRAY<ARRAY<STRING>>"),
    ],
)
def test_every_generic_type_is_one_that_the_platform_takes(engine, kind, written):
    made = table(sa.Column("c", kind))
    assert f"( c {written} )" in compiled(CreateTable(made))
    made.create(engine)
    assert [column["name"] for column in sa.inspect(engine).get_columns("t")] == ["c"]


@pytest.mark.parametrize(
    "column",
    [
        sa.Column("c", sa.Numeric(39)),
        sa.Column("c", sa.Time(timezone=True)),
        sa.Column("c", sa.String(collation="de")),
        sa.Column("c", sa.Integer, unique=True),
        sa.Column("c", sa.Integer, sa.CheckConstraint("c > 1")),
        sa.Column("c", sa.Integer, sa.Computed("1 + 1")),
        sa.Column("c", sa.Integer, sa.Identity()),
    ],
)
def test_what_can_not_be_kept_is_refused(column):
    with pytest.raises(exc.CompileError):
        compiled(CreateTable(table(column)))


def test_a_foreign_key_is_left_out_with_a_warning(engine):
    metadata = sa.MetaData()
    sa.Table("a", metadata, sa.Column("id", sa.Integer, primary_key=True))
    sa.Table("b", metadata, sa.Column("a_id", sa.Integer, sa.ForeignKey("a.id")))
    with pytest.warns(exc.SAWarning, match='foreign key of table "b"'):
        metadata.create_all(engine)
    assert sa.inspect(engine).get_foreign_keys("b") == []


def test_indexes_are_not_needed_and_unique_ones_not_kept(engine):
    made = table(sa.Column("c", sa.Integer, index=True))
    made.create(engine)
    assert sa.inspect(engine).get_indexes("t") == []
    with pytest.raises(exc.CompileError, match="unique index"):
        compiled(CreateIndex(sa.Index("u", made.c.c, unique=True)))
    made.drop(engine)


def test_schemas_come_and_go(engine):
    with engine.connect() as connection:
        connection.execute(CreateSchema("shop", if_not_exists=True))
        table(sa.Column("a", sa.Integer), schema="shop").create(connection)
        assert sa.inspect(connection).get_table_names("shop") == ["t"]
        connection.execute(DropSchema("shop", cascade=True))
        assert sa.inspect(connection).get_schema_names() == ["main"]


def test_create_all_and_drop_all_are_repeatable(engine):
    metadata = sa.MetaData()
    sa.Table("a", metadata, sa.Column("x", sa.Integer))
    sa.Table("s", metadata, sa.Column("x", sa.Integer), platform_stream=True)
    for _ in range(2):
        metadata.create_all(engine)
    assert sorted(sa.inspect(engine).get_table_names()) == ["a", "s"]
    for _ in range(2):
        metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []


def test_a_stream_is_a_table_with_limits(engine):
    with engine.connect() as connection:
        connection.execute(
            CreateStream(
                "posts", [sa.Column("uid", sa.Integer)], retention_rows=10, retention=timedelta(hours=1), comment="c", if_not_exists=True
            )
        )
        assert engine.dialect.get_stream_names(connection) == ["posts"]
        found = sa.Table("posts", sa.MetaData(), autoload_with=connection)
        assert compiled(CreateTable(found)) == (
            "CREATE STREAM posts ( uid INT ) COMMENT 'c' WITH (retention_rows = 10, retention = '1 hour', on_overrun = 'abort')"
        )
        connection.execute(DropStream(found))
        assert engine.dialect.get_stream_names(connection) == []


def test_a_stream_of_a_table_leaves_the_table_as_it_was():
    plain = table(sa.Column("a", sa.Integer), schema="shop")
    assert compiled(CreateStream(plain, retention="1 day")) == "CREATE STREAM shop.t ( a INT ) WITH (retention = '1 day')"
    assert compiled(DropStream(plain)) == "DROP STREAM shop.t"
    assert compiled(CreateTable(plain)) == "CREATE TABLE shop.t ( a INT )"


def test_limits_without_a_stream_are_refused():
    with pytest.raises(exc.CompileError, match="platform_stream=True"):
        compiled(CreateTable(table(sa.Column("a", sa.Integer), platform_retention_rows=5)))


@pytest.mark.parametrize("stream", [False, True])
def test_comments_are_set_changed_and_dropped(engine, stream):
    made = table(sa.Column("a", sa.Integer, comment="old"), comment="before", platform_stream=stream)
    with engine.connect() as connection:
        made.create(connection)
        made.comment, made.c.a.comment = "it's \\ `now`", "new"
        connection.execute(SetTableComment(made))
        connection.execute(SetColumnComment(made.c.a))
        inspector = sa.inspect(connection)
        assert inspector.get_table_comment("t") == {"text": "it's \\ `now`"}
        assert inspector.get_columns("t")[0]["comment"] == "new"
        connection.execute(sa.schema.DropTableComment(made))
        assert sa.inspect(connection).get_table_comment("t") == {"text": None}


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (sa.Integer, "5"),
        (sa.Integer, sa.text("-5")),
        (sa.Numeric(9, 2), "1.50"),
        (sa.Boolean, "1"),
        (sa.String, "a'b\\c\n`"),
        (sa.String, "5"),
    ],
)
def test_defaults_survive_a_round_trip(engine, kind, default):
    table(sa.Column("c", kind, server_default=default), sa.Column("other", sa.Integer)).create(engine)
    found = sa.Table("t", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        connection.execute(found.insert(), {"other": 1})
        first = connection.connection.dbapi_connection.platform.lake.read("t").column("c").to_pylist()
        found.drop(connection)
        found.create(connection)
        connection.execute(found.insert(), {"other": 1})
        assert connection.connection.dbapi_connection.platform.lake.read("t").column("c").to_pylist() == first
    if isinstance(default, str) and kind is sa.String:
        assert first == [default]
