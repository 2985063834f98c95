"""Every word that Spark takes for a name works without back-ticks; what no query could read is refused when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.errors import PlatformError
from platform_plugin.language.query.needs import mentioned_columns
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.script import parse_statement
from platform_plugin.language.text.bare_names import FOREIGN, KEYWORDS, find_names
from platform_plugin.language.text.tokens import tokenize
from platform_plugin.operators.group.body import read_body
from platform_plugin.platform import Platform
from tests.language.spark_keywords import KEYWORDS as OF_SPARK
from tests.language.spark_keywords import REFUSED

if TYPE_CHECKING:
    from pathlib import Path

PLACES = {
    "relation": "SELECT a FROM {}",
    "column of a relation": "SELECT {0}.a FROM {0}",
    "joined relation": "SELECT 1 FROM t JOIN {0} ON t.a = {0}.a",
    "column": "SELECT {} FROM t",
    "listed column": "SELECT a, {}, b FROM t",
    "qualified column": "SELECT t.{} FROM t",
    "compared column": "SELECT a FROM t WHERE {0} = 1 AND {0} IS NOT NULL",
    "column of a group": "SELECT {0}, count(*) AS n FROM t GROUP BY {0} ORDER BY {0} LIMIT 3",
    "argument": "SELECT sum({}) FROM t",
    "alias": "SELECT a AS {} FROM t",
    "alias of a relation": "SELECT {0}.a FROM t AS {0}",
    "name of WITH": "WITH {0} AS (SELECT 1 AS a) SELECT a FROM {0}",
}
COLUMNS = {"column", "listed column", "qualified column", "compared column", "column of a group", "argument"}
RELATIONS = {"relation", "column of a relation"}


def check(place: str, word: str) -> None:
    query = PLACES[place].format(word.lower())
    asked = analyse_query(query)
    references = asked.relations
    names = [] if place == "name of WITH" else [word.lower()] if place in RELATIONS else ["t", word.lower()] if "JOIN" in query else ["t"]
    assert [str(found.name) for found in references] == names, query
    columns = mentioned_columns(asked.tree)
    if place in COLUMNS and columns is not None:
        assert word.lower() in columns, query
    read_body(query)


@pytest.mark.parametrize("place", PLACES)
def test_a_word_with_another_meaning_is_a_name_where_spark_takes_it_for_one(place: str) -> None:
    for word in sorted(KEYWORDS | FOREIGN):
        if word not in REFUSED.get(place, "").split() and not (word == "JOIN" and place == "joined relation"):
            check(place, word)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_so_is_every_keyword_of_spark(place: str) -> None:
    for word in OF_SPARK:
        if word not in REFUSED.get(place, "").split():
            check(place, word)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT a FROM t WHERE a IS NOT DISTINCT FROM b AND NOT a IN (1, 2) GROUP BY ALL ORDER BY a LIMIT ALL",
        "SELECT CASE WHEN a IS NULL THEN 1 ELSE NULL END AS x, CASE a WHEN 1 THEN 2 END FROM t GROUP BY a WITH ROLLUP",
        "SELECT a FROM t LEFT OUTER JOIN u USING (a) CROSS JOIN v NATURAL JOIN w UNION ALL SELECT * EXCEPT (b) FROM t",
        "SELECT a FROM t LEFT SEMI JOIN u ON a NOT LIKE b AND a NOT BETWEEN 1 AND 2 RIGHT JOIN v ON NOT EXISTS (SELECT 1) FULL JOIN w",
        "SELECT sum(a) FILTER (WHERE a > 1) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "SELECT CAST(a AS DATE), INTERVAL 1 DAY, a LIKE 'x' FROM t TABLESAMPLE (10 PERCENT) LATERAL VIEW OUTER explode(b) e AS f",
        "FROM t SELECT a WHERE EXISTS (SELECT 1 FROM u WHERE t.a = u.a) AND a BETWEEN 1 AND 2 WINDOW x AS (ORDER BY a) OFFSET 3",
        "SELECT a FROM t JOIN u ON b = :limit AND c > ? JOIN v ON d = ? ORDER BY a",
        "DROP TABLE t",
        "WITH x AS (VALUES (1), (2)) SELECT left('abc', 1), if(a, b, c), EXTRACT(YEAR FROM d) FROM x QUALIFY rank() OVER (ORDER BY a) = 1",
    ],
)
def test_keywords_stay_keywords(query: str) -> None:
    assert find_names(tokenize(query)).names == frozenset()


def test_a_parameter_is_no_name_and_a_condition_may_begin_with_one() -> None:
    assert find_names(tokenize("SELECT a FROM t WHERE :limit > 1")).names == frozenset()
    assert find_names(tokenize("limit = 1 AND values IS NULL")).names == {0, 4}


def test_what_is_between_keywords_and_names_is_told_by_its_place() -> None:
    tokens = find_names(tokenize("SELECT limit, case FROM values AS window WHERE limit > 1 AND window.from = 2 GROUP BY limit LIMIT 3"))
    assert [tokens.text(index) for index in sorted(tokens.names)] == [
        "limit",
        "case",
        "values",
        "window",
        "limit",
        "window",
        "from",
        "limit",
    ]


@settings(max_examples=60)
@given(words=st.lists(st.sampled_from([*sorted(KEYWORDS | FOREIGN), "a", "t", ",", "(", ")", "=", ".", "1", "*"]), max_size=12))
def test_no_error_speaks_of_the_parser(words: list[str]) -> None:
    for read in (analyse_query, read_body):
        said = ""
        try:
            read("SELECT " + " ".join(words))
        except PlatformError as error:
            said = str(error)
        assert "token" not in said.lower()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (not INT)",
        "CREATE TABLE true (a INT)",
        "CREATE VIEW v (all) AS SELECT 1",
        "ALTER TABLE t ADD COLUMN distinct INT",
        "ALTER TABLE t RENAME COLUMN a TO null",
        "ALTER TABLE t RENAME TO false",
    ],
)
def test_a_name_that_no_query_could_read_bare_is_refused_when_it_is_given(statement: str) -> None:
    with pytest.raises(PlatformError, match="as a keyword, not as a name") as caught:
        parse_statement(statement)
    assert "`" in str(caught.value.hint)


def test_a_path_is_refused_wherever_words_are_told_by_their_place() -> None:
    with pytest.raises(PlatformError, match="is a file"):
        analyse_query("SELECT limit, parquet.`/etc/passwd` FROM values")


@pytest.mark.spark
def test_relations_and_columns_with_such_names_are_read(tmp_path: Path, spark_server: Any) -> None:
    del spark_server
    words = ["glob", "grant", "returning", "qualify", "xor", "limit", "values", "window", "select", "current_date"]
    with Platform.create(tmp_path / "lake") as platform:
        for number, word in enumerate(words):
            platform.execute(f"CREATE TABLE {word} ({word} INT, a INT)")
            platform.execute(f"INSERT INTO {word} VALUES ({number}, 1)")
        read = " UNION ALL ".join(f"SELECT {word}.{word} AS {word} FROM {word} WHERE {word} >= 0 GROUP BY {word}" for word in words)
        assert sorted(platform.execute(read)) == [(number,) for number in range(len(words))]
        kept = platform.execute("SELECT keyword FROM sql_keywords()")
        assert tuple(sorted(row[0] for row in kept)) == tuple(sorted(OF_SPARK)), "the list is Spark's own"
