import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.errors import InvalidStatement
from platform_plugin.language.script import parse_script, parse_statement
from platform_plugin.language.statements.select import Select


@pytest.mark.parametrize("text", ["", " \n", ";;;", "-- nothing", "/* nothing; */ ;", "\ufeff", "\r\n;\r\n"])
def test_empty_scripts(text):
    assert parse_script(text) == ()


def test_semicolons_inside_text_do_not_end_statements():
    script = "SELECT ';' AS `a;b` -- ; \n;\r\n/* ; /* ; */ */ SHOW TABLES;"
    assert [statement.span.text for statement in parse_script(script)] == ["SELECT ';' AS `a;b`", "SHOW TABLES"]


def test_statements_know_their_place():
    second = parse_script("SHOW TABLES;\r\n\r\n  SELECT 1")[1]
    assert (second.span.line, second.span.column) == (3, 3)
    assert (second.query.line, second.query.column) == (3, 3)


def test_faults_in_scripts_are_placed_in_the_script():
    with pytest.raises(InvalidStatement) as caught:
        parse_script("SHOW TABLES;\nDROP TABEL x;")
    assert (caught.value.line, caught.value.column) == (2, 6)


def test_one_statement():
    assert isinstance(parse_statement("SELECT 1;"), Select)
    with pytest.raises(InvalidStatement, match="an empty statement"):
        parse_statement(" ; ")
    with pytest.raises(InvalidStatement, match="more than one statement"):
        parse_statement("SELECT 1; DROP TABLE t")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELCT 1", "did you mean SELECT?"),
        ("CRATE TABLE t (a INT)", "did you mean CREATE?"),
        ("MERGE INTO t USING s ON a = b", "UPDATE"),
        ("BEGIN", "every statement commits by itself"),
        ("SET x = 1", "session settings"),
        ("USE shop", "schema.relation"),
        ("42", "unknown statement 42"),
        ("'SELECT 1'", "unknown statement"),
        ("SELECT ?, :x", "one style of parameter"),
    ],
)
def test_unknown_statements(text, said):
    with pytest.raises(InvalidStatement) as caught:
        parse_statement(text)
    assert said in str(caught.value)


VOCABULARY = """
CREATE TABLE STREAM VIEW CONTINUOUS SAMPLE SCHEMA FOREIGN SERVER OPTIONS OR REPLACE IF NOT EXISTS AS HISTORY OF SELECT FROM WHERE
t a b ( ) , ; . = INT STRING ARRAY< > DECIMAL(9,2) PRIMARY KEY DEFAULT COMMENT 'x' "d" `q` WITH INSERT INTO VALUES 1 -2.5 :p ? NULL
DATE UPDATE SET DELETE COPY (FORMAT csv) ALTER ADD COLUMN RENAME TO TYPE DROP CASCADE SHOW TABLES DESCRIBE EXPLAIN REFRESH SUSPEND
QUERY retention_rows ON IS SIZE 1000 -- /* */
"""
WORDS = st.sampled_from(VOCABULARY.split())


@settings(max_examples=400)
@given(st.one_of(st.text(max_size=80), st.lists(WORDS | st.text(max_size=3), max_size=20).map(" ".join)))
def test_any_text_is_a_script_or_an_invalid_statement(text):
    try:
        statements = parse_script(text)
    except InvalidStatement as error:
        assert "line " in error.detail  # noqa: PT017
        assert 1 <= error.line <= text.count("\n") + 1  # noqa: PT017
    else:
        for statement in statements:
            assert statement.span.text in text
            repr(statement)


def test_a_megabyte_of_rows_takes_as_long_as_sixteen_of_its_sixteenths():
    def seconds(count, number=0):
        text = "INSERT INTO t VALUES " + ",".join([f"({number},'abc',2.5)"] * count)
        begun = time.process_time()
        assert len(parse_statement(text).rows) == count
        return time.process_time() - begun

    # What is quadratic takes sixteen times as long; a busy machine takes twice as long for some of it.
    assert seconds(72_000) < 64 * min(seconds(4_500, number) for number in range(1, 4))


def test_parsing_loads_no_heavy_library():
    probe = (
        "import sys; from platform_plugin.language.script import parse_script; parse_script('SELECT 1; SHOW TABLES');"
        "print([name for name in ('sqlglot', 'pyspark', 'dagster', 'pandas', 'sqlalchemy', 'pyarrow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.strip() == "[]"
