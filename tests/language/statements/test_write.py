from datetime import date

import pytest

from platform_plugin.errors import InvalidStatement
from platform_plugin.language.script import parse_statement
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.values import Literal, Parameter


def test_literal_rows_need_no_engine():
    insert = parse_statement("INSERT INTO shop.posts (uid, `on`) VALUES (1, DATE '2026-01-01'), (-2, NULL), (:u, 'x;y')")
    assert insert.name == WrittenName(parts=("shop", "posts"))
    assert insert.columns == ("uid", "on")
    assert insert.rows[0] == (Literal("integer", 1), Literal("date", date(2026, 1, 1)))
    assert insert.rows[1] == (Literal("integer", -2), Literal("null", None))
    assert insert.rows[2][0] == Parameter(name="u", span=insert.rows[2][0].span)
    assert insert.parameters == (insert.rows[2][0],)
    assert insert.query.text.startswith("VALUES (1")


@pytest.mark.parametrize("values", ["(now())", "(1 + 1)", "(ARRAY(1))", "(1) AS t(a)", "(1) UNION ALL SELECT 2", "1, 2", "(1), (SELECT 2)"])
def test_all_other_rows_are_a_query(values):
    insert = parse_statement(f"INSERT INTO t VALUES {values}")
    assert insert.rows is None
    assert insert.query.text == f"VALUES {values}"


@pytest.mark.parametrize("query", ["SELECT 1", "(SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a", "FROM x SELECT a", "TABLE x"])
def test_insert_from_a_query(query):
    insert = parse_statement(f"INSERT INTO TABLE t {query}")
    assert (insert.rows, insert.columns, insert.query.text) == (None, (), query)
    assert parse_statement(f"INSERT INTO t BY NAME {query}").by_name


def test_positional_parameters():
    insert = parse_statement("INSERT INTO t VALUES (?, ?)")
    assert [cell.index for cell in insert.rows[0]] == [0, 1]


def test_delete_and_update():
    delete = parse_statement("DELETE FROM t AS x WHERE x.a IN (SELECT a FROM u) -- done")
    assert (delete.alias, delete.where.text) == ("x", "x.a IN (SELECT a FROM u)")
    assert parse_statement("DELETE FROM t").where is None
    update = parse_statement("UPDATE t SET a = CASE WHEN b > 1 THEN f(b, 2) END, t.b = :b, c = NULL WHERE a = 1")
    assert [(each.column, each.expression.text) for each in update.assignments] == [
        ("a", "CASE WHEN b > 1 THEN f(b, 2) END"),
        ("b", ":b"),
        ("c", "NULL"),
    ]
    assert update.assignments[0].value is None
    assert update.assignments[1].value.name == "b"
    assert update.assignments[2].value == Literal("null", None)
    assert update.where.text == "a = 1"


def test_copy():
    copy = parse_statement("COPY s.t (a, b) FROM 's3://x/*.csv' (FORMAT csv, HEADER true, DELIMITER ',', NULL '')")
    assert (copy.name.parts, copy.columns, copy.path, copy.format) == (("s", "t"), ("a", "b"), "s3://x/*.csv", "csv")
    assert {option.name: option.value for option in copy.options} == {"header": True, "delimiter": ",", "null": ""}
    assert parse_statement("COPY t FROM '/x/a.JSONL.gz'").format == "json"
    assert parse_statement("COPY t FROM '/x/a'").format is None
    assert parse_statement("COPY t FROM :path").path.name == "path"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INSERT INTO t VALUES (1, 2), (3)", "row 2 has 1 value instead of 2"),
        ("INSERT INTO t (a) VALUES (1, 2)", "row 1 has 2 values instead of 1"),
        ("INSERT INTO t (a, A) VALUES (1, 2)", "named twice"),
        ("INSERT OVERWRITE t SELECT 1", "DELETE the rows, then INSERT INTO"),
        ("INSERT t VALUES (1)", "expected OVERWRITE or INTO"),
        ("INSERT INTO t VALUE (1)", "did you mean VALUES?"),
        ("DELETE t", "expected FROM"),
        ("DELETE FROM t WERE a = 1", "expected"),
        ("DELETE FROM t WHERE", "expected a condition"),
        ("DELETE FROM t WHERE (a = 1", "( is never closed"),
        ("DELETE FROM t WHERE a = 1) OR (b = 1", ") has no partner"),
        ("UPDATE t SET a = 1, a = 2", "named twice"),
        ("UPDATE t SET a 1", "expected ="),
        ("UPDATE t SET a = WHERE b", "expected an expression"),
        ("COPY t FROM '/x.csv' (HEADR true)", "did you mean header?"),
        ("COPY t FROM '/x.csv' (FORMAT cvs)", "did you mean csv?"),
        ("COPY t FROM '/x.csv' (HEADER maybe)", "expected true or false"),
        ("COPY t TO '/x.csv'", "COPY … TO is not supported"),
        ("COPY t FROM ''", "an empty path"),
        ('COPY t FROM "/x"', "strings go between single quotes"),
    ],
)
def test_faults(text, said):
    with pytest.raises(InvalidStatement) as caught:
        parse_statement(text)
    assert said in str(caught.value)
