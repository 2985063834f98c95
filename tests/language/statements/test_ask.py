import pytest

from platform_plugin.errors import InvalidStatement
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.create_view import CreateView
from platform_plugin.language.statements.describe import Describe
from platform_plugin.language.statements.refresh import RebuildView, RefreshSample, RefreshStream, RefreshView
from platform_plugin.language.statements.select import Select
from platform_plugin.language.statements.show import Show, list_subjects
from platform_plugin.language.statements.suspend import ResumeQuery, SuspendQuery
from platform_plugin.language.text.names import WrittenName

V = WrittenName(parts=("v",))


@pytest.mark.parametrize("subject", [subject for subject in list_subjects() if subject != "COLUMNS"])
def test_show_lists(subject):
    assert parse_statement(f"show {subject.lower()}") == Show(subject=subject)


def test_show_narrows():
    assert parse_statement("SHOW TABLES IN shop LIKE 'a%'") == Show(subject="TABLES", schema="shop", like="a%")
    assert parse_statement("SHOW COLUMNS FROM v") == Show(subject="COLUMNS", name=V)
    assert parse_statement("SHOW CREATE TABLE v") == Show(subject="CREATE", name=V)


def test_describe():
    assert parse_statement("DESCRIBE v") == parse_statement("DESC TABLE v") == Describe(name=V)
    assert parse_statement("DESCRIBE EXTENDED s.v") == Describe(name=WrittenName(parts=("s", "v")), extended=True)
    assert parse_statement("DESCRIBE FORMATTED v") == Describe(name=V, extended=True, internal=True)
    assert parse_statement("DESCRIBE stream") == Describe(name=WrittenName(parts=("stream",)))


def test_explain():
    explained = parse_statement("EXPLAIN FORMATTED SELECT 1")
    assert (explained.mode, type(explained.statement)) == ("formatted", Select)
    assert isinstance(parse_statement("EXPLAIN CREATE VIEW v AS SELECT 1").statement, CreateView)
    assert parse_statement("EXPLAIN SELECT :x").parameters[0].name == "x"


def test_refresh_suspend_resume():
    assert parse_statement("REFRESH VIEW v") == RefreshView(name=V)
    assert parse_statement("REFRESH SAMPLE v") == RefreshSample(name=V)
    assert parse_statement("REFRESH STREAM v") == RefreshStream(name=V)
    assert parse_statement("REBUILD VIEW v") == RebuildView(name=V)
    assert parse_statement("SUSPEND QUERY 'q-1'") == SuspendQuery(id="q-1")
    assert parse_statement("RESUME QUERY 'q-1'") == ResumeQuery(id="q-1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SHOW TABELS", "did you mean TABLES?"),
        ("SHOW COLUMNS", "expected FROM or IN"),
        ("SHOW SNAPSHOTS LIKE 'x'", "unexpected LIKE"),
        ("SHOW JOBS", "unexpected JOBS"),
        ("DESCRIBE", "expected a relation"),
        ("EXPLAIN EXPLAIN SELECT 1", "expected a query"),
        ("EXPLAIN DROP TABLE t", "expected a query"),
        ("REFRESH v", "expected VIEW, CONTINUOUS VIEW, MATERIALIZED VIEW, SAMPLE or STREAM"),
        ("SUSPEND QUERY q", "expected 'the id of a query'"),
        ("SUSPEND QUERY ' '", "an empty query id"),
    ],
)
def test_faults(text, said):
    with pytest.raises(InvalidStatement) as caught:
        parse_statement(text)
    assert said in str(caught.value)
