import string
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive, Struct, list_of, map_of
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.alter import (
    AddColumn,
    Alter,
    DropColumn,
    RenameColumn,
    RenameRelation,
    SetDefault,
    SetNullable,
    SetType,
)
from platform_plugin.language.statements.comment import Comment
from platform_plugin.language.statements.create_sample import CreateSample
from platform_plugin.language.statements.create_schema import CreateSchema
from platform_plugin.language.statements.create_stream import CreateStream, Feed
from platform_plugin.language.statements.create_table import CreateHistory, CreateTable
from platform_plugin.language.statements.create_view import CreateView, ViewColumn
from platform_plugin.language.statements.drop import Drop
from platform_plugin.language.statements.registry import statement_text
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.options import Option
from platform_plugin.language.text.places import Span
from platform_plugin.language.text.values import string_value
from platform_plugin.language.text.words import RESERVED
from platform_plugin.language.text.writing import identifier, string_text

printable = st.text(min_size=1, max_size=12).filter(str.isprintable)
names = st.one_of(
    printable,
    st.text(string.ascii_letters + "_`\"'.;- 🦆", min_size=1, max_size=12),
    st.sampled_from(sorted(RESERVED)),
    st.sampled_from(["if", "primary", "as", "with", "select", "index", "foreign", "unique", "check"]),
)
relations = st.lists(names, min_size=1, max_size=2).map(lambda parts: WrittenName(parts=tuple(parts)))
comments = st.none() | st.text(max_size=20).filter(lambda text: not any("\ud800" <= each <= "\udfff" for each in text))
leaves = st.sampled_from(["int32", "int64", "varchar", "boolean", "timestamptz", "date", "blob", "uuid", "float64"]).map(Primitive)
types = st.recursive(
    leaves | st.integers(1, 38).map(lambda digits: Decimal(precision=digits, scale=digits // 2)),
    lambda inner: (
        inner.map(list_of)
        | st.builds(map_of, inner, inner)
        | st.builds(
            lambda name, kind, null, said: Struct(fields=(Field(name=name, type=kind, nullable=null, comment=said),)),
            names,
            inner,
            st.booleans(),
            comments,
        )
    ),
    max_leaves=4,
)
DEFAULTS = {
    "int32": "-7",
    "varchar": "it's \\ \n%_",
    "boolean": "true",
    "date": "2026-02-28",
    "blob": "0aff",
    "float64": "1e+300",
    "timestamptz": "2026-02-28 00:00:00",
}


@st.composite
def columns(draw, nullable=None):
    kind = draw(types)
    default = DEFAULTS.get(kind.name) if isinstance(kind, Primitive) and draw(st.booleans()) else None
    return Field(
        name=draw(names), type=kind, nullable=draw(st.booleans()) if nullable is None else nullable, default=default, comment=draw(comments)
    )


column_lists = st.lists(columns(), min_size=1, max_size=4, unique_by=lambda column: column.name.lower()).map(tuple)


@st.composite
def tables(draw):
    found = draw(column_lists)
    keys = tuple(column.name for column in found if not column.nullable and draw(st.booleans()))
    return CreateTable(name=draw(relations), columns=found, primary_key=keys, comment=draw(comments), if_not_exists=draw(st.booleans()))


query = st.sampled_from(["SELECT 1", "WITH a AS (SELECT ';' AS x) SELECT * FROM a", "VALUES (1, '-- no')"]).map(
    lambda text: Span(text, 0, len(text))
)
counts = st.none() | st.integers(0, 10**17)
durations = st.none() | st.timedeltas(min_value=timedelta(microseconds=1))
changes = st.one_of(
    st.builds(AddColumn, column=columns(), if_not_exists=st.booleans()),
    st.builds(DropColumn, column=names, if_exists=st.booleans()),
    st.builds(RenameColumn, column=names, to=names),
    st.builds(RenameRelation, to=relations),
    st.builds(SetType, column=names, type=types),
    st.builds(SetNullable, column=names, nullable=st.booleans()),
    st.builds(SetDefault, column=names, default=st.none() | st.text(string.printable, max_size=9)),
)
definitions = st.one_of(
    tables(),
    st.builds(CreateTable, name=relations, query=query, or_replace=st.booleans(), comment=comments),
    st.builds(CreateHistory, name=relations, stream=relations, if_not_exists=st.booleans()),
    st.builds(
        CreateStream,
        name=relations,
        columns=column_lists,
        retention_rows=counts,
        retention=durations,
        retention_bytes=counts,
        on_overrun=st.sampled_from(["abort", "block"]),
        feed=st.none()
        | st.builds(Feed, kind=st.just("FILES"), location=printable, options=st.just((Option(name="header", value=False),)))
        | st.builds(Feed, kind=st.just("KAFKA"), location=printable, options=st.just((Option(name="on_gap", value="skip"),))),
        comment=comments,
        or_replace=st.booleans(),
    ),
    st.builds(
        CreateView,
        name=relations,
        query=query,
        aliases=st.lists(st.builds(ViewColumn, name=names, comment=comments), max_size=3, unique_by=lambda alias: alias.name.lower()).map(
            tuple
        ),
        comment=comments,
        options=durations.map(lambda lag: (Option(name="target_lag", value=lag), Option(name="maintenance", value="split")) if lag else ()),
        continuous=st.booleans(),
        if_not_exists=st.booleans(),
    ),
    st.builds(
        CreateSample,
        name=relations,
        relation=relations,
        size=st.integers(1, 10**9),
        weight=st.none() | names,
        strata=st.lists(names, max_size=2, unique_by=str.lower).map(tuple),
    ),
    st.builds(
        lambda name, parts, size: CreateSample(name=name, relation=parts[0], parts=tuple(parts), size=size),
        relations,
        st.lists(relations, min_size=2, max_size=4),
        st.integers(1, 10**9),
    ),
    st.builds(CreateSchema, name=names, if_not_exists=st.booleans()),
    st.builds(
        Drop, kind=st.sampled_from(["TABLE", "STREAM", "VIEW", "SAMPLE"]), name=relations, if_exists=st.booleans(), cascade=st.booleans()
    ),
    st.builds(Alter, kind=st.sampled_from(["TABLE", "STREAM"]), name=relations, change=changes, if_exists=st.booleans()),
    st.builds(Comment, kind=st.just("TABLE"), name=relations, column=st.none() | names, text=comments),
)


@given(definitions)
def test_definitions_read_back_from_their_own_text(statement):
    assert parse_statement(statement_text(statement)) == statement


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_strings_read_back_from_their_own_text(value):
    assert string_value(string_text(value)) == value


@given(names)
def test_names_read_back_from_their_own_text(name):
    assert parse_statement(f"DROP TABLE {identifier(name)}").name.parts == (name,)
