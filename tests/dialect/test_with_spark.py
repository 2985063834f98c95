"""What needs Spark: queries, changes of rows, views, streamed results and pandas."""

import datetime as dt
import threading
import tracemalloc
from decimal import Decimal
from uuid import uuid4

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.sql.ddl import CreateTableAs, CreateView, DropView

pytestmark = pytest.mark.spark

ROW = {
    "id": 1,
    "order": "q'\\`",
    "big": 2**40,
    "f": 1.5,
    "n": Decimal("1.25"),
    "b": True,
    "d": dt.date(2026, 1, 2),
    "ts": dt.datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001  the column has no zone
    "tz": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "bin": b"\x00\xff",
    "u": uuid4(),
    "j": {"a": [1, None]},
    "arr": [1, 2],
    "iv": dt.timedelta(days=1, seconds=5),
    "en": "x",
}


@pytest.fixture(scope="module")
def things(spark_engine):
    table = sa.Table(
        "all things",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("order", sa.String(20)),
        sa.Column("big", sa.BigInteger),
        sa.Column("f", sa.Float),
        sa.Column("n", sa.Numeric(9, 2)),
        sa.Column("b", sa.Boolean),
        sa.Column("d", sa.Date),
        sa.Column("ts", sa.DateTime),
        sa.Column("tz", sa.DateTime(timezone=True)),
        sa.Column("bin", sa.LargeBinary),
        sa.Column("u", sa.Uuid),
        sa.Column("j", sa.JSON),
        sa.Column("arr", sa.ARRAY(sa.Integer)),
        sa.Column("iv", sa.Interval),
        sa.Column("en", sa.Enum("x", "y", name="xy")),
    )
    with spark_engine.connect() as connection:
        table.create(connection)
        connection.execute(table.insert(), [ROW, dict.fromkeys(ROW) | {"id": 2}])
    return table


@pytest.fixture
def connection(spark_engine):
    with spark_engine.connect() as connection:
        yield connection


def test_values_come_back_as_they_were(connection, things):
    got = dict(connection.execute(sa.select(things).where(things.c.id == 1)).mappings().one())
    assert got == ROW
    assert {name: type(value) for name, value in got.items()} == {name: type(value) for name, value in ROW.items()}
    assert set(connection.execute(sa.select(things).where(things.c.id == 2)).one()) == {2, None}


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("column", ["order", "big", "f", "n", "b", "d", "ts", "tz", "bin", "u", "en"])
def test_every_kind_of_value_is_found_again(connection, things, column, literal):
    value = sa.bindparam("v", ROW[column], things.c[column].type, literal_execute=literal)
    assert connection.execute(sa.select(things.c.id).where(things.c[column] == value)).scalars().all() == [1]


def test_queries(connection, things):
    ids = sa.select(things.c.id).order_by(things.c.id)
    assert connection.execute(ids.limit(1).offset(1)).scalars().all() == [2]
    assert connection.execute(ids.offset(1)).scalars().all() == [2]
    assert connection.execute(ids.fetch(1)).scalars().all() == [1]
    assert connection.execute(ids.where(things.c.id.in_([2, 3]))).scalars().all() == [2]
    assert connection.execute(ids.where(things.c.id.in_([]))).scalars().all() == []
    assert connection.execute(ids.where(things.c.id.not_in([]))).scalars().all() == [1, 2]
    assert connection.execute(ids.where(things.c.order.contains("\\", autoescape=True))).scalars().all() == [1]
    assert connection.execute(ids.where(things.c.order.regexp_match("^Q", flags="i"))).scalars().all() == [1]
    assert connection.execute(ids.where(things.c.b.is_not_distinct_from(sa.null()))).scalars().all() == [2]
    row = connection.execute(
        sa.select(
            sa.cast(things.c.id, sa.String) + "!", things.c.id / 2, things.c.id // 2, things.c.id % 2, sa.true(), sa.cast("1", sa.Integer)
        ).where(things.c.id == 1)
    ).one()
    assert tuple(row) == ("1!", Decimal("0.5"), 0, 1, True, 1)


@pytest.mark.parametrize("attack", ["x' OR '1'='1", "\\' OR 1=1 --", "`", "*/", ":v", "x\x00y"])
def test_an_attack_in_a_query_finds_nothing(connection, things, attack):
    for value in (sa.bindparam("v", attack), sa.literal(attack, literal_execute=True)):
        assert connection.execute(sa.select(things.c.id).where(things.c.order == value)).all() == []
        assert connection.execute(sa.select(value)).scalar() == attack


def test_rows_are_changed(connection):
    table = sa.Table("t", sa.MetaData(), sa.Column("select", sa.Integer), sa.Column("a`b", sa.String), schema="shop")
    connection.execute(sa.schema.CreateSchema("shop"))
    table.create(connection)
    connection.execute(table.insert(), [{"select": n, "a`b": "x"} for n in range(5)])
    assert connection.execute(table.update().where(table.c.select == 1).values({"a`b": "y'"})).rowcount == 1
    assert connection.execute(table.update().where(table.c.select > 2).values(select=table.c.select * 10)).rowcount == 2
    assert connection.execute(table.delete().where(table.c["a`b"] == "x", table.c.select == 0)).rowcount == 1
    assert sorted(connection.execute(sa.select(table)).all()) == [(1, "y'"), (2, "x"), (30, "x"), (40, "x")]
    copied = connection.execute(table.insert().from_select(["select"], sa.select(table.c.select + 1)))
    assert copied.rowcount == 4
    assert connection.execute(table.delete()).rowcount == 8


def test_views_are_made_read_reflected_and_dropped(connection, things):
    view = CreateView(sa.select(things.c.id, things.c.order).where(things.c.order == ROW["order"]), "quoted")
    connection.execute(view)
    assert connection.execute(sa.select(view.table)).all() == [(1, ROW["order"])]
    inspector = sa.inspect(connection)
    assert inspector.get_view_names() == ["quoted"]
    assert inspector.get_view_definition("quoted").startswith("SELECT")
    assert [(column["name"], type(column["type"])) for column in inspector.get_columns("quoted")] == [
        ("id", sa.Integer),
        ("order", sa.String),
    ]
    assert "quoted" not in inspector.get_table_names()
    assert inspector.has_table("quoted")
    connection.execute(DropView(view.table))
    assert sa.inspect(connection).get_view_names() == []


def test_a_table_is_made_of_a_query(connection, things):
    made = CreateTableAs(sa.select(things.c.id.label("n")), "made")
    connection.execute(made)
    assert sorted(connection.execute(sa.select(made.table)).scalars()) == [1, 2]


def test_documents_come_back_as_dicts(connection):
    row = connection.exec_driver_sql("SELECT map('a', 1), named_struct('x', 1), array(map('b', 2))").one()
    assert tuple(row) == ({"a": 1}, {"x": 1}, [{"b": 2}])


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1 / 0", exc.DataError),
        ("SELECT nothing FROM `all things`", exc.ProgrammingError),
        ("SELECT no_such_function(1)", exc.ProgrammingError),
        ("SELECT CAST('x' AS INT)", exc.DataError),
    ],
)
def test_errors_of_spark_are_told_by_their_kind_with_a_caret(connection, things, sql, kind):
    with pytest.raises(kind) as caught:
        connection.exec_driver_sql(sql).all()
    assert type(caught.value) is kind
    assert "^" in str(caught.value)


def test_a_value_that_can_not_be_bound_is_a_data_error(connection):
    with pytest.raises(exc.DataError, match=r"has a value of type object"):
        connection.exec_driver_sql("SELECT :v", {"v": object()})


def test_large_results_are_streamed(connection):
    tracemalloc.start()
    result = connection.execution_options(stream_results=True, yield_per=1000).execute(
        sa.text("SELECT id, id * 2, 'abc' FROM range(500000)")
    )
    rows = sum(len(part) for part in result.partitions())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows == 500_000
    assert peak < 30_000_000, "the rows as tuples alone would be twice that"


def test_an_unread_result_is_let_go(connection):
    result = connection.exec_driver_sql("SELECT id FROM range(10000000)")
    assert result.fetchone() == (0,)
    result.close()
    assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_threads_query_through_one_engine(spark_engine, things):
    failures = []

    def work(number):
        try:
            for _ in range(3):
                with spark_engine.connect() as own:
                    assert own.execute(sa.select(sa.literal(number) + sa.func.count()).select_from(things)).scalar() == number + 2
        except Exception as error:  # noqa: BLE001  whatever it is, the test must say it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_pandas_writes_and_reads(connection):
    frame = pd.DataFrame({"a": range(1000), "b": ["x", None] * 500, "c": [1.5, None] * 500, "d": pd.Timestamp("2026-01-01")})
    assert frame.to_sql("frames", connection, if_exists="replace", index=False) == 1000
    assert frame.to_sql("frames", connection, if_exists="append", index=False) == 1000
    assert pd.read_sql("SELECT count(*) AS n, count(c) AS c FROM frames", connection).to_dict("records") == [{"n": 2000, "c": 1000}]
    frame.to_sql("frames", connection, if_exists="replace")
    found = pd.read_sql("frames", connection, index_col="index").sort_index().rename_axis(None)
    pd.testing.assert_frame_equal(found, frame, check_dtype=False)
    assert pd.read_sql(sa.text("SELECT a FROM frames WHERE a = :a"), connection, params={"a": 7})["a"].tolist() == [7]


def test_the_orm_saves_finds_changes_and_deletes(spark_engine):
    class Base(DeclarativeBase):
        pass

    class User(Base):
        __tablename__ = "orm users"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str | None]

    Base.metadata.create_all(spark_engine)
    with Session(spark_engine) as session:
        session.add_all([User(id=1, name="Ada"), User(id=2, name="Grace")])
        session.commit()
        grace = session.scalars(sa.select(User).where(User.name == "Grace")).one()
        grace.name = "Hopper"
        session.commit()
        assert session.get(User, 2).name == "Hopper"
        session.delete(grace)
        session.commit()
        assert session.scalars(sa.select(User.id)).all() == [1]
