"""Columns come, go, change names and widen, by id: every file reads as the table looked at each snapshot."""

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Decimal, Field, List, Primitive, Struct, list_of, map_of, struct_of
from platform_plugin.errors import InvalidValue, ObjectExists, UnknownObject
from tests.lake.agreement import append, assert_agree, create, kept, rows_of

ROWS = pa.table({"i": pa.array([1, 2], pa.int32()), "s": ["a", None]})
TYPED = {
    "boolean": ("true", True),
    "int64": ("-7", -7),
    "uint64": ("18446744073709551615", 2**64 - 1),
    "float64": ("1.5", 1.5),
    "varchar": ("it's", "it's"),
    "date": ("2020-02-29", None),
    "timestamp": ("2020-02-29 01:02:03.5", None),
    "timestamptz": ("2020-02-29 01:02:03.5", None),
    "time": ("01:02:03", None),
    "uuid": ("7f000000-0000-4000-8000-000000000001", None),
    "blob": ("abc", b"abc"),
}


def test_columns_come_and_go(lake, reader):
    table = create(lake, "t", ROWS)
    with lake.commit("add") as commit:
        commit.add_column(table, Field(name="n", type=Primitive("int32"), default="7"))
        commit.add_column(table, Field(name="x", type=Primitive("varchar")))
    append(lake, lake.table("t"), pa.table({"i": pa.array([3], pa.int32()), "n": pa.array([None], pa.int32())}))
    with lake.commit("drop") as commit:
        commit.drop_column(lake.table("t"), "s")
    with lake.commit("again") as commit:
        commit.add_column(lake.table("t"), Field(name="s", type=Primitive("int64"), default="5"))
    assert sorted(rows_of(lake.read("t"))) == [(1, 7, None, 5), (2, 7, None, 5), (3, None, None, 5)]
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))


@pytest.mark.parametrize("word", TYPED)
def test_defaults_of_each_type_read_the_same(lake, reader, word):
    table = create(lake, "t", ROWS)
    text, value = TYPED[word]
    with lake.commit("add") as commit:
        commit.add_column(table, Field(name="d", type=Primitive(word), default=text))
    assert_agree(lake, reader)
    append(lake, lake.table("t"), ROWS)
    reader.execute("INSERT INTO t(i) VALUES (9)")
    assert_agree(lake, reader)
    found = set(lake.read("t").column("d").to_pylist())
    assert len(found) == 1
    assert value is None or found == {value}


def test_decimal_default(lake, reader):
    table = create(lake, "t", ROWS)
    with lake.commit("add") as commit:
        commit.add_column(table, Field(name="d", type=Decimal(precision=9, scale=2), default="-1.50"))
    assert_agree(lake, reader)


def test_set_and_drop_a_default(lake, reader):
    table = create(lake, "t", ROWS)
    with lake.commit("set") as commit:
        commit.set_default(table, "s", default="new")
    append(lake, lake.table("t"), ROWS.select(["i"]))
    reader.execute("INSERT INTO t(i) VALUES (5)")
    with lake.commit("drop") as commit:
        commit.set_default(lake.table("t"), "s", default=None)
    append(lake, lake.table("t"), ROWS.select(["i"]))
    reader.execute("INSERT INTO t(i) VALUES (6)")
    assert sorted(rows_of(lake.read("t")), key=str) == sorted(
        [(1, "a"), (2, None), (1, "new"), (2, "new"), (5, "new"), (1, None), (2, None), (6, None)], key=str
    )
    assert_agree(lake, reader)


def test_rename_keeps_the_values_even_when_names_are_swapped(lake, reader):
    rows = pa.table({"a": [1], "b": [2]})
    table = create(lake, "t", rows)
    with lake.commit("swap") as commit:
        commit.rename_column(table, "a", to="c")
        commit.rename_column(table, "b", to="a")
        commit.rename_column(table, "c", to="b")
    assert lake.read("t").to_pylist() == [{"b": 1, "a": 2}]
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int8", "int16"),
        ("int8", "int64"),
        ("int16", "int32"),
        ("int32", "int64"),
        ("uint8", "uint64"),
        ("uint32", "uint64"),
        ("float32", "float64"),
        ("int8", "float64"),
        ("int32", "float64"),
        (Decimal(precision=4, scale=1), Decimal(precision=10, scale=3)),
    ],
)
def test_widened_columns_keep_their_values(lake, reader, old, new):
    from platform_plugin.lake.values.types import to_arrow

    old, new = (Primitive(kind) if isinstance(kind, str) else kind for kind in (old, new))
    values = pa.array([1, 100, None], to_arrow(old))
    table = create(lake, "t", pa.table({"v": values}), fields=[Field(name="v", type=old)])
    with lake.commit("widen") as commit:
        commit.widen_column(table, "v", to=new)
    append(lake, lake.table("t"), pa.table({"v": pa.array([1], to_arrow(new))}))
    assert lake.read("t").schema.field("v").type == to_arrow(new)
    assert_agree(lake, reader)
    assert reader.rows("SELECT count(*) FROM t WHERE v = 1") == [(2,)]
    lake.merge("t")
    assert_agree(lake, reader)


def test_parts_of_structs_come_go_and_change_names_at_any_depth(lake, reader):
    inner = struct_of(a=Primitive("int32"), b=Primitive("varchar"))
    rows = pa.table(
        {
            "st": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
            "ls": [[{"a": 1, "b": "x"}, None], [], None],
            "m": pa.array(
                [[("k", {"a": 1, "b": "x"})], [], None], pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b", pa.string())]))
            ),
        }
    )
    fields = [
        Field(name="st", type=inner),
        Field(name="ls", type=list_of(inner)),
        Field(name="m", type=map_of(Primitive("varchar"), inner)),
    ]
    table = create(lake, "t", rows, fields=fields)
    with lake.commit("alter") as commit:
        for path in (("st",), ("ls", "element"), ("m", "value")):
            commit.add_column(table, Field(name="c", type=Primitive("int32")), parent=path)
            commit.rename_column(table, *path, "a", to="z")
            commit.drop_column(table, *path, "b")
    assert lake.read("t").to_pylist()[0] == {
        "st": {"z": 1, "c": None},
        "ls": [{"z": 1, "c": None}, None],
        "m": [("k", {"z": 1, "c": None})],
    }
    assert isinstance(lake.table("t").fields[1].type, List)
    assert isinstance(lake.table("t").fields[0].type, Struct)
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))
    append(lake, lake.table("t"), pa.table({"st": [{"z": 5, "c": 6}]}))
    with lake.commit("widen") as commit:
        commit.widen_column(lake.table("t"), "st", "z", to=Primitive("int64"))
    assert_agree(lake, reader)
    lake.merge("t")
    assert_agree(lake, reader)


def test_null_is_allowed_again(lake, reader):
    table = create(lake, "t", ROWS.select(["i"]), fields=[Field(name="i", type=Primitive("int32"), nullable=False)])
    with lake.commit("allow") as commit:
        commit.allow_null(table, "i")
    append(lake, lake.table("t"), pa.table({"i": pa.array([None], pa.int32())}))
    reader.execute("INSERT INTO t VALUES (NULL)")
    assert_agree(lake, reader)


def test_alterations_that_would_lose_something_are_refused(lake):
    table = create(lake, "t", ROWS, partition_by=[])
    with lake.commit("partition") as commit:
        commit.partition(table, [("s", "identity")])
    table, before = lake.table("t"), lake.snapshot()
    for kind, match, do in (
        (InvalidValue, "can't become", lambda commit: commit.widen_column(table, "i", to=Primitive("int16"))),
        (InvalidValue, "can't become", lambda commit: commit.widen_column(table, "s", to=Primitive("int64"))),
        (InvalidValue, "partitions", lambda commit: commit.drop_column(table, "s")),
        (InvalidValue, "no value for it", lambda commit: commit.add_column(table, Field(name="n", type=Primitive("int8"), nullable=False))),
        (ObjectExists, '"I"', lambda commit: commit.add_column(table, Field(name="I", type=Primitive("int8")))),
        (ObjectExists, '"s"', lambda commit: commit.rename_column(table, "i", to="s")),
        (UnknownObject, '"x"', lambda commit: commit.drop_column(table, "x")),
        (UnknownObject, '"x"', lambda commit: commit.rename_column(table, "x", "y", to="z")),
    ):
        with pytest.raises(kind, match=match) as refused, lake.commit("refused") as commit:
            do(commit)
        assert refused.value.hint
        assert lake.snapshot() == before
    only = create(lake, "only", ROWS.select(["i"]))
    with pytest.raises(InvalidValue, match="last one"), lake.commit("refused") as commit:
        commit.drop_column(only, "i")
