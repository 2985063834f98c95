import time
from collections import Counter

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

import platform_plugin.language.query.query as query_module
from platform_plugin.errors import InvalidStatement
from platform_plugin.language.query.query import analyse_expression, analyse_query
from platform_plugin.language.script import parse_statement
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.places import Span
from platform_plugin.operators.group.body import read_body
from tests.language.queries import QUERIES


def names(text):
    return [str(reference.name) for reference in analyse_query(text).relations]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM a, s.b JOIN `c d` USING (x)", ["a", "s.b", "c d"]),
        ("WITH a AS (SELECT * FROM b), c AS (SELECT * FROM a JOIN d) SELECT * FROM c, a, e", ["b", "d", "e"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM A", ["a"]),
        ("WITH RECURSIVE r AS (SELECT * FROM b UNION ALL SELECT * FROM r) SELECT * FROM r", ["b"]),
        ("WITH a AS (SELECT 1) SELECT * FROM s.a", ["s.a"]),
        ("SELECT * FROM (WITH x AS (SELECT * FROM a) SELECT * FROM x) JOIN x", ["a", "x"]),
        ("SELECT (SELECT max(i) FROM b WHERE b.j = a.j) FROM a WHERE EXISTS (FROM c SELECT 1) AND k IN (TABLE d)", ["b", "a", "c", "d"]),
        ("(SELECT * FROM a) UNION SELECT * FROM b INTERSECT (SELECT * FROM c) ORDER BY 1", ["a", "b", "c"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b) c LATERAL VIEW explode(xs) t AS x", ["a", "b"]),
        ("SELECT * FROM range(10) r, explode(array(1)), VALUES (1) v", []),
        ("TABLE s.a", ["s.a"]),
        ("FROM a SELECT x", ["a"]),
        ("SELECT EXTRACT(year FROM d), TRIM(BOTH 'x' FROM y) FROM a WHERE p IS DISTINCT FROM q", ["a"]),
        ("SELECT 'FROM x', \"FROM y\" /* FROM z */ -- FROM w\n FROM a", ["a"]),
        ("SELECT /*+ BROADCAST(b) */ * FROM a JOIN b", ["a", "b"]),
        ("SELECT * FROM STREAM orders JOIN STREAM(s.users) u", ["orders", "s.users"]),
        ("SELECT * FROM stream WHERE stream.x = 1", ["stream"]),
        ("SELECT payload:a.b, m['k'] FROM a", ["a"]),
    ],
)
def test_relations_are_those_of_the_lake(text, expected):
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("SELECT posts.uid FROM posts", "SELECT posts.uid FROM `v0` AS `posts`"),
        ("SELECT p.uid FROM posts p", "SELECT p.uid FROM `v0` p"),
        ("SELECT p.uid FROM posts AS p (uid)", "SELECT p.uid FROM `v0` AS p (uid)"),
        ("SELECT s.posts.uid, s . posts.* FROM s.posts", "SELECT posts.uid, posts.* FROM `v0` AS `posts`"),
        ("SELECT s.posts.uid FROM s.posts, t s", "SELECT s.posts.uid FROM `v0` AS `posts`, `v1` s"),
        ("SELECT * FROM `we``ird` WHERE 'FROM x' = y", "SELECT * FROM `v0` AS `we``ird` WHERE 'FROM x' = y"),
        ("SELECT * FROM a TABLESAMPLE (5 ROWS) WHERE x", "SELECT * FROM `v0` TABLESAMPLE (5 ROWS) AS `a` WHERE x"),
        ("SELECT * FROM a TABLESAMPLE (5 ROWS) b", "SELECT * FROM `v0` TABLESAMPLE (5 ROWS) b"),
        ("TABLE a", "TABLE `v0`"),
        ("SELECT * FROM a AT (VERSION => 3) JOIN a", "SELECT * FROM `v0` AS `a` JOIN `v1` AS `a`"),
        ("SELECT * FROM a x AT (TIMESTAMP => '2026-01-01')", "SELECT * FROM `v0` x"),
        ("SELECT * FROM a FOR VERSION AS OF 3 AS x", "SELECT * FROM `v0` AS x"),
        ("SELECT * FROM STREAM(a) JOIN STREAM b c", "SELECT * FROM `v0` AS `a` JOIN `v1` c"),
        ("SELECT  'ü'\r\n FROM /* 🦆 */ a -- x\n", "SELECT  'ü'\r\n FROM /* 🦆 */ `v0` AS `a`"),
        ("SELECT * FROM a PIVOT (sum(x) FOR y IN (1))", "SELECT * FROM `v0` AS `a` PIVOT (sum(x) FOR y IN (1))"),
    ],
)
def test_rendering_replaces_names_and_keeps_the_rest(text, rendered):
    query = analyse_query(text)
    assert query.render({reference: f"v{reference.index}" for reference in query.relations}).text == rendered


@pytest.mark.parametrize("text", QUERIES)
def test_rendering_without_names_changes_nothing(text):
    query = analyse_query(text)
    assert query.render({}).text == text.strip()
    rendered = query.render({reference: f"v{reference.index}" for reference in query.relations})
    again = analyse_query(rendered.text)
    assert [str(reference.name) for reference in again.relations] == [f"v{index}" for index in range(len(query.relations))]


@pytest.mark.parametrize("text", QUERIES)
def test_positions_come_back_to_the_source(text):
    script = f"SHOW TABLES;\n{text}"
    query = analyse_query(Span(script, 13, len(script)))
    rendered = query.render(dict.fromkeys(query.relations, "a_rather_long_name"))
    for position, character in enumerate(rendered.text):
        origin = rendered.locate(position)
        assert 13 <= origin <= len(script)
        if script[origin : origin + 1] != character:
            edit = next(edit for edit in query.edits if edit.start <= origin <= edit.end)
            assert edit.view or edit.text


def test_sparks_lines_come_back_to_the_source():
    script = "CREATE VIEW v AS SELECT *\nFROM posts JOIN users ON oops"
    query = analyse_query(Span(script, 17, len(script)))
    rendered = query.render(dict.fromkeys(query.relations, "some_view"))
    assert script[rendered.locate_line(2, rendered.text.split("\n")[1].index("oops")) :] == "oops"
    place = rendered.at(rendered.text.index("oops"))
    assert (place.line, place.column) == (2, 26)


def test_time_travel():
    first, second, third = analyse_query("SELECT * FROM a AT (VERSION => :v), b AT (TIMESTAMP => TIMESTAMP '2026-01-01'), c").relations
    assert first.travel.version.name == "v"
    assert second.travel.timestamp.kind == "timestamp"
    assert third.travel is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM parquet.`/etc/passwd`", "files enter through COPY"),
        ("SELECT * FROM `CSV`.`s3://x/*.csv`", "files enter through COPY"),
        ("SELECT * FROM read_files('/etc')", "files enter through COPY"),
        ("SELECT * FROM a, some_udtf(1)", "table functions are those of Spark"),
        ("SELECT * FROM rnge(10)", "did you mean range?"),
        ("SELECT reflect('java.lang.System', 'getenv', 'HOME')", "runs no code"),
        ("SELECT `Java_Method`('a', 'b')", "runs no code"),
        ("SELECT builtin.try_reflect ('a', 'b')", "runs no code"),
        ("SELECT TRANSFORM (a) USING 'rm -rf /' FROM t", "runs no code"),
        ('FROM t MAP a USING "cat"', "runs no code"),
        ("SELECT * FROM IDENTIFIER('par' || 'quet.`/x`')", "names are written out"),
        ("INSERT INTO t SELECT 1", "a query only reads"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "a query only reads"),
        ("FROM a INSERT OVERWRITE b SELECT *", "a query only reads"),
        ("DROP TABLE t", "a query only reads"),
        ("SELECT 1; DROP TABLE t", "more than one statement"),
        ("SELECT * FROM a |> WHERE x", "pipes are not supported"),
        ("SELECT * FROM posts@v1", "AT (VERSION => n)"),
        ('SELECT * FROM "posts"', "between back-ticks: `posts`"),
        ("SELECT * FROM a.b.c", "a name of 3 parts"),
        ("SELECT * FROM s.posts, t.posts", "give them aliases"),
        ("SELECT * FROM a, STREAM b", "write STREAM(b)"),
        ("SELECT * FROM a AT (VERSON => 3)", "did you mean VERSION?"),
        ("SELECT * FROM a AT (VERSION => 'x')", "expected a whole number"),
        ("SELECT * FROM a AT (VERSION => 1) x AT (VERSION => 2)", "two snapshots"),
        ("WITH a AS (SELECT 1) SELECT * FROM a AT (VERSION => 1)", "no relation of the lake"),
        ("SELECT * FROM a AT (VERSION => ?)", "use a named parameter"),
        ("SELECT uid FORM posts", "did you mean FROM?"),
        ("SELECT * FROM posts WERE x = 1", "did you mean WHERE?"),
        ("SELECT (1", "( is never closed"),
        ("", "an empty query"),
    ],
)
def test_refusals_and_faults_say_why(text, said):
    with pytest.raises(InvalidStatement) as caught:
        analyse_query(text)
    assert said in str(caught.value)
    assert caught.value.line == 1


def test_expressions_of_a_statement_are_read_in_their_place():
    delete = parse_statement("DELETE FROM users u\nWHERE u.id > 3 AND region IN (SELECT region FROM users AT (VERSION => 2)) -- all")
    found = analyse_expression(delete.where, delete.name, delete.alias)
    assert (found.target.name, found.target.alias) == (delete.name, "u")
    assert [str(reference.name) for reference in found.relations] == ["users"]
    rendered = found.render({found.relations[0]: "v"})
    assert rendered.text == "u.id > 3 AND region IN (SELECT region FROM `v` AS `users`)"
    assert delete.where.source[rendered.locate(rendered.text.index("region")) :].startswith("region IN")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1 UNION SELECT * FROM u", "unexpected"),
        ("a = 1 ORDER BY a", "unexpected"),
        ("a = 1) OR (b = 2", "has no partner"),
        ("reflect('x') = 1", "runs no code"),
        ("a = 1; DROP TABLE t", "more than one statement"),
        ("a IN (SELECT 1 FROM csv.`/x`)", "files enter through COPY"),
        ("", "an empty expression"),
    ],
)
def test_expressions_are_nothing_else(text, said):
    with pytest.raises(InvalidStatement) as caught:
        analyse_expression(text, WrittenName(parts=("t",)))
    assert said in str(caught.value)


def test_an_expression_may_be_one_number():
    assert analyse_expression("70", WrittenName(parts=("t",))).render({}).text == "70"


def test_faults_in_bodies_are_placed_in_the_script():
    script = "SHOW TABLES;\nSELECT reflect('x')"
    with pytest.raises(InvalidStatement) as caught:
        analyse_query(Span(script, 13, len(script)))
    assert (caught.value.line, caught.value.column, caught.value.rule) == (2, 8, "a query runs no code but Spark's own functions")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 200 + "1" + ")" * 200,
        "SELECT * FROM (" * 200 + "SELECT 1" + ")" * 200,
        "SELECT " + "CASE WHEN a THEN " * 200 + "1" + " END" * 200,
    ],
)
def test_two_hundred_levels(text):
    assert analyse_query(text).relations == ()


@pytest.mark.parametrize("text", ["SELECT " + "(" * 100_000, "SELECT " + "NOT " * 100_000 + "1", "SELECT " + "CASE WHEN a THEN " * 100_000])
def test_beyond_the_limit_is_an_error(text):
    with pytest.raises(InvalidStatement):
        analyse_query(text)


@pytest.mark.parametrize(
    "write",
    [
        lambda size, number: f"SELECT a FROM t WHERE a IN ({'12345, ' * (size // 7)}{number})",
        lambda size, number: f"SELECT '{number}{'x' * size}' FROM t",
    ],
    ids=["many", "long"],
)
def test_a_megabyte_of_literals_takes_as_long_as_sixteen_of_its_sixteenths(write):
    def seconds(size, number=0):
        text = write(size, number)
        begun = time.process_time()
        assert names(text) == ["t"]
        return time.process_time() - begun

    # What is quadratic takes 256 times as long; a busy machine takes twice as long for some of it, and a moment for anything.
    assert seconds(1_000_000) < 64 * max(min(seconds(62_500, number) for number in range(1, 4)), 0.005)


VOCABULARY = """
SELECT FROM WHERE AND OR NOT WITH AS ( ) , ; . a b posts s.t `q` "d" 'x' 1 2.5 :p ? * = < IN BETWEEN JOIN LEFT ON USING UNION ALL TABLE
STREAM LATERAL VIEW explode(a) AT (VERSION => 3) VERSION AS OF TABLESAMPLE (5 ROWS) GROUP BY ORDER LIMIT CASE WHEN THEN END INTERVAL
DATE '5 days' CAST AS STRUCT<a:INT>
payload:x[0] -> => /*+ */ -- EXISTS VALUES range(3) PIVOT OVER WINDOW EXTRACT TRIM DISTINCT NULL IS
"""


@settings(max_examples=500)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(VOCABULARY.split()), max_size=18).map(" ".join)))
def test_any_text_is_a_query_or_an_invalid_statement(text):
    try:
        query = analyse_query(text)
    except InvalidStatement as error:
        assert "line " in error.detail  # noqa: PT017
    else:
        assert query.render({}).text == query.span.text
        query.render(dict.fromkeys(query.relations, "v"))


def test_a_text_is_tokenised_and_parsed_once(monkeypatch):
    counts = Counter()

    def counted(module, name):
        plain = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **named: counts.update([name]) or plain(*given, **named))

    counted(query_module, "tokenize")
    counted(sqlglot, "parse_one")
    text = "SELECT uid, sum(score) AS score FROM posts_read_once GROUP BY uid"
    assert analyse_query(text) is analyse_query(text)
    read_body(text)
    assert counts == {"tokenize": 1, "parse_one": 1}


@pytest.mark.parametrize("text", ["'FR'", "7", "NULL", "DATE '2026-01-01'"])
def test_a_new_value_may_be_a_single_literal(text):
    found = analyse_expression(text, WrittenName(parts=("t",)))
    assert found.render({}).text == text


@pytest.mark.parametrize(
    ("gap", "written"),
    [
        ("INTERVAL 5 MINUTES", "'5 MINUTES'"),
        ("interval '5' minute", "'5 minute'"),
        ("INTERVAL '1 hour 5 minutes'", "'1 hour 5 minutes'"),
        ("'5 minutes'", "'5 minutes'"),
        ("INTERVAL '1:30' MINUTE TO SECOND", "INTERVAL '1:30' MINUTE TO SECOND"),
    ],
)
def test_the_gap_of_a_session_is_written_as_spark_takes_it(gap, written):
    query = analyse_query(f"SELECT x, INTERVAL 5 MINUTES AS i FROM t GROUP BY Session_Window(at, {gap}), x -- session_window")
    text = query.render({query.relations[0]: "v"}).text
    assert text == f"SELECT x, INTERVAL 5 MINUTES AS i FROM `v` AS `t` GROUP BY Session_Window(at, {written}), x"
