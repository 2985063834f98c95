"""Injection attempts: whatever names and values say, they stay names and values."""

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin import Platform
from platform_plugin.dialect import PlatformDialect

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
KEPT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)  # comments and defaults hold no zero characters
NAMES = st.one_of(
    TEXT.filter(lambda text: bool(text) and text.isprintable()),
    st.sampled_from(
        [
            "select",
            "Order",
            "x; DROP TABLE keep",
            "`",
            "``",
            "a`b",
            "'",
            '"',
            ":x",
            "?",
            "--",
            "/*",
            "a b",
            "x_61",
            "1",
            "a.b",
            "%s",
            "{}",
            "_id",
        ]
    ),
)
ATTACKS = [
    "x'); DROP TABLE keep; --",
    "\\'; DROP TABLE keep; --",
    "`",
    "'",
    "''",
    "\\",
    "\\\\",
    ":id",
    "?",
    "*/",
    "%(x)s",
    "{0}",
    "\x00",
    "é😀",
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    url = f"platform+local://{tmp_path_factory.mktemp('names')}/lake"
    Platform.create(url).close()
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE keep (a INT)")
        yield connection
    engine.dispose()


@settings(max_examples=60)
@given(name=NAMES, columns=st.lists(NAMES, min_size=1, max_size=3, unique_by=lambda text: text.lower()), value=TEXT, comment=KEPT)
def test_any_name_and_value_come_back(opened, name, columns, value, comment):
    table = sa.Table(f"t {name}", sa.MetaData(), *(sa.Column(column, sa.String) for column in columns), comment=comment)
    table.create(opened)
    try:
        opened.execute(table.insert(), dict.fromkeys(columns, value))
        opened.execute(table.insert(), [dict.fromkeys(columns, value)] * 2)
        assert opened.connection.dbapi_connection.platform.lake.read(table.name).to_pylist() == [dict.fromkeys(columns, value)] * 3
        inspector = sa.inspect(opened)
        assert set(inspector.get_table_names()) == {"keep", table.name}
        assert [column["name"] for column in inspector.get_columns(table.name)] == columns
        assert inspector.get_table_comment(table.name) == {"text": comment}
    finally:
        table.drop(opened)


@settings(max_examples=60)
@given(default=KEPT.filter(lambda text: text.upper() != "NULL"))  # the catalogue keeps a default of NULL as this word
def test_any_default_comes_back(opened, default):
    table = sa.Table("defaults", sa.MetaData(), sa.Column("a", sa.String, server_default=default), sa.Column("b", sa.Integer))
    table.create(opened)
    try:
        opened.execute(table.insert(), {"b": 1})
        assert opened.connection.dbapi_connection.platform.lake.read("defaults").column("a").to_pylist() == [default]
    finally:
        table.drop(opened)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_in_a_value_is_a_value(opened, attack):
    table = sa.Table("victims", sa.MetaData(), sa.Column("a", sa.String))
    table.create(opened)
    try:
        opened.execute(table.insert(), {"a": attack})
        opened.execute(sa.text("INSERT INTO victims VALUES (:a)"), {"a": attack})
        opened.execute(table.insert().values(a=sa.literal(attack, literal_execute=True)))
        assert opened.connection.dbapi_connection.platform.lake.read("victims").column("a").to_pylist() == [attack] * 3
        assert sa.inspect(opened).has_table("keep")
    finally:
        table.drop(opened)


@given(names=st.lists(NAMES, min_size=2, max_size=6, unique=True))
def test_no_two_parameters_meet(names):
    table = sa.Table("t", sa.MetaData(), *(sa.Column(name, sa.Integer) for name in names))
    compiled = table.insert().compile(dialect=PlatformDialect())
    escaped = [compiled.escaped_bind_names.get(name, name) for name in names]
    assert len(set(escaped)) == len(names)
