import pytest

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidStatement
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
from platform_plugin.language.statements.drop import Drop
from platform_plugin.language.text.names import WrittenName

T = WrittenName(parts=("t",))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("ADD COLUMN b BIGINT DEFAULT 7", AddColumn(column=Field(name="b", type=Primitive("int64"), default="7"))),
        ("ADD IF NOT EXISTS b STRING", AddColumn(column=Field(name="b", type=Primitive("varchar")), if_not_exists=True)),
        ("DROP COLUMN IF EXISTS `b c`", DropColumn(column="b c", if_exists=True)),
        ("RENAME COLUMN a TO b", RenameColumn(column="a", to="b")),
        ("RENAME TO s.u", RenameRelation(to=WrittenName(parts=("s", "u")))),
        ("ALTER COLUMN a TYPE BIGINT", SetType(column="a", type=Primitive("int64"))),
        ("ALTER COLUMN a SET DATA TYPE BIGINT", SetType(column="a", type=Primitive("int64"))),
        ("ALTER a DROP NOT NULL", SetNullable(column="a", nullable=True)),
        ("ALTER a SET NOT NULL", SetNullable(column="a", nullable=False)),
        ("ALTER a SET DEFAULT 5", SetDefault(column="a", default="5")),
        ("ALTER a DROP DEFAULT", SetDefault(column="a", default=None)),
    ],
)
def test_changes_of_a_table(change, expected):
    assert parse_statement(f"ALTER TABLE IF EXISTS t {change}") == Alter(kind="TABLE", name=T, change=expected, if_exists=True)


def test_options_of_a_stream():
    change = parse_statement("ALTER STREAM t SET (retention_rows = 5)").change
    assert [(option.name, option.value) for option in change.options] == [("retention_rows", 5)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM", "VIEW", "SAMPLE", "SCHEMA"])
def test_drop(kind):
    assert parse_statement(f"DROP {kind} IF EXISTS t CASCADE") == Drop(kind=kind, name=T, if_exists=True, cascade=True)
    assert parse_statement(f"DROP {kind} t") == Drop(kind=kind, name=T)


def test_drop_knows_the_long_names():
    assert parse_statement("DROP FOREIGN TABLE t").kind == "STREAM"
    assert parse_statement("DROP CONTINUOUS VIEW t").kind == "VIEW"


def test_comments():
    assert parse_statement("COMMENT ON STREAM t IS 'it''s'") == Comment(kind="STREAM", name=T, text="it's")
    assert parse_statement("COMMENT ON COLUMN s.t.a IS NULL") == Comment(kind="TABLE", name=WrittenName(parts=("s", "t")), column="a")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DROP TABEL t", "did you mean TABLE?"),
        ("DROP SCHEMA a.b", "a schema's name has one part"),
        ("DROP TABLE t, u", "unexpected ,"),
        ("ALTER TABLE t ADD COLUMN a INT PRIMARY KEY", "can't be the primary key"),
        ("ALTER TABLE t RENAM COLUMN a TO b", "did you mean RENAME?"),
        ("ALTER TABLE t ALTER COLUMN a TYP INT", "did you mean TYPE?"),
        ("ALTER TABLE t SET (retention_rows = 5)", 'a table has no option "retention_rows"'),
        ("ALTER VIEW v DROP COLUMN a", "CREATE OR REPLACE VIEW"),
        ("COMMENT ON COLUMN a IS 'x'", "a column is named after its relation"),
        ("COMMENT ON TABLE a 'x'", "expected IS"),
    ],
)
def test_faults(text, said):
    with pytest.raises(InvalidStatement) as caught:
        parse_statement(text)
    assert said in str(caught.value)
