import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive, Struct, list_of, map_of
from platform_plugin.errors import InvalidStatement
from platform_plugin.language.text.datatypes import PRIMITIVES, parse_type


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("int", "int32"),
        ("INT8", "int64"),
        ("long", "int64"),
        ("tinyint", "int8"),
        ("varchar(20)", "varchar"),
        ("character varying(3)", "varchar"),
        ("text", "varchar"),
        ("double precision", "float64"),
        ("real", "float32"),
        ("timestamp", "timestamptz"),
        ("timestamp with time zone", "timestamptz"),
        ("timestamp without time zone", "timestamp"),
        ("timestamp_ntz", "timestamp"),
        ("bytea", "blob"),
        ("uuid", "uuid"),
        ("json", "json"),
    ],
)
def test_words_of_spark_and_postgresql(text, name):
    assert parse_type(text) == Primitive(name)


def test_nested_types():
    assert parse_type("ARRAY<MAP<STRING, DECIMAL(9,2)>>[]") == list_of(list_of(map_of(Primitive("varchar"), Decimal(precision=9, scale=2))))
    assert parse_type("STRUCT<a: INT NOT NULL, `b c` TEXT COMMENT 'x'>") == Struct(
        fields=(
            Field(name="a", type=Primitive("int32"), nullable=False),
            Field(name="b c", type=Primitive("varchar"), comment="x"),
        )
    )
    assert parse_type("numeric") == Decimal(precision=10, scale=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("itn", "did you mean INT?"),
        ("strng", "did you mean STRING?"),
        ("decimal(39,2)", "1 to 38 digits"),
        ("decimal(3,4)", "can't have 4 after the point"),
        ("array", "expected <"),
        ("struct<a int, A int>", "named twice"),
        ("int int", "unexpected int"),
        ("", "expected a type"),
        ("array<int", "expected >"),
    ],
)
def test_faults_say_what_was_expected(text, said):
    with pytest.raises(InvalidStatement) as caught:
        parse_type(text)
    assert said in str(caught.value)


def test_nesting_has_a_limit():
    parse_type("ARRAY<" * 200 + "INT" + ">" * 200)
    with pytest.raises(InvalidStatement, match="levels deep"):
        parse_type("ARRAY<" * 100_000)


types = st.recursive(
    st.sampled_from(sorted(set(PRIMITIVES.values()))).map(Primitive)
    | st.integers(1, 38).flatmap(lambda digits: st.builds(Decimal, precision=st.just(digits), scale=st.integers(0, digits))),
    lambda inner: (
        st.builds(list_of, inner)
        | st.builds(map_of, inner, inner)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: Struct(fields=tuple(Field(name=f"f `{index}`", type=kind) for index, kind in enumerate(kinds)))
        )
    ),
    max_leaves=8,
)


@given(types)
def test_every_type_reads_back_from_its_own_text(kind):
    assert parse_type(str(kind)) == kind
