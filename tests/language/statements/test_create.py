from datetime import timedelta

import pytest

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive
from platform_plugin.errors import InvalidStatement
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.create_sample import CreateSample
from platform_plugin.language.statements.create_schema import CreateSchema
from platform_plugin.language.statements.create_stream import CreateStream
from platform_plugin.language.statements.create_table import CreateHistory, CreateTable
from platform_plugin.language.text.names import WrittenName


def test_table():
    table = parse_statement(
        """CREATE TABLE IF NOT EXISTS shop.users (
            id INT PRIMARY KEY, region STRING NOT NULL DEFAULT 'eu' COMMENT 'where', rate DECIMAL(9,2) DEFAULT -1.50
        ) COMMENT 'people' WITH (target_file_size = '10 MB', parquet_compression = zstd)"""
    )
    assert isinstance(table, CreateTable)
    assert table.name == WrittenName(parts=("shop", "users"))
    assert table.columns == (
        Field(name="id", type=Primitive("int32"), nullable=False),
        Field(name="region", type=Primitive("varchar"), nullable=False, default="eu", comment="where"),
        Field(name="rate", type=Decimal(precision=9, scale=2), default="-1.50"),
    )
    assert table.primary_key == ("id",)
    assert table.comment == "people"
    assert {option.name: option.value for option in table.options} == {"target_file_size": 10_000_000, "parquet_compression": "zstd"}
    assert table.if_not_exists
    assert not table.or_replace


def test_key_of_several_columns_makes_them_not_null():
    table = parse_statement("CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (B, a))")
    assert table.primary_key == ("b", "a")
    assert [column.nullable for column in table.columns] == [False, False, True]


def test_table_as_query_keeps_the_text():
    table = parse_statement("CREATE OR REPLACE TABLE t AS SELECT 1 AS x -- end")
    assert table.query.text == "SELECT 1 AS x"
    assert table.or_replace


def test_history():
    assert parse_statement("CREATE TABLE h AS HISTORY OF posts") == CreateHistory(
        name=WrittenName(parts=("h",)), stream=WrittenName(parts=("posts",))
    )


def test_stream():
    stream = parse_statement("CREATE STREAM posts (uid INT) WITH (retention_rows = 1000000, retention = '1 hour', on_overrun = 'block')")
    assert stream == CreateStream(
        name=WrittenName(parts=("posts",)),
        columns=(Field(name="uid", type=Primitive("int32")),),
        retention_rows=1_000_000,
        retention=timedelta(hours=1),
        on_overrun="block",
    )


def test_foreign_table_is_a_stream():
    foreign = parse_statement("CREATE FOREIGN TABLE posts (uid INT) SERVER stream OPTIONS (retention_rows '1000', retention_bytes '1 KiB')")
    native = parse_statement("CREATE STREAM posts (uid INT) WITH (retention_rows = 1000, retention_bytes = 1024)")
    assert foreign == native


def test_stream_from_a_feed():
    stream = parse_statement(
        "CREATE STREAM s (a INT) FROM FILES 's3://b/*.csv' (FORMAT csv, HEADER, DELIMITER ';') WITH (retention = INTERVAL 2 HOURS)"
    )
    assert (stream.feed.kind, stream.feed.location) == ("FILES", "s3://b/*.csv")
    assert {option.name: option.value for option in stream.feed.options} == {"format": "csv", "header": True, "delimiter": ";"}
    assert stream.retention == timedelta(hours=2)
    assert parse_statement("CREATE STREAM s (a INT) FROM KAFKA 'host:9092/topic' (start 'latest')").feed.kind == "KAFKA"
    assert parse_statement("CREATE STREAM s FROM FILES '/data/*.parquet'").columns == ()
    table = parse_statement("CREATE STREAM s FROM TABLE raw.posts (max_files 10)").feed
    assert (table.kind, table.relation.parts, table.location) == ("TABLE", ("raw", "posts"), "raw.posts")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("CREATE STREAM s FROM KAFKA 'h:1/t'", "columns of a stream from kafka are not named", 28),
        ("CREATE STREAM s FROM FILES '/d/*.csv'", "columns of a stream from files are not named", 28),
        ("CREATE STREAM s FROM FILES '/d/*' (FORMAT csv)", "columns of a stream from files are not named", 28),
        ("CREATE STREAM s (a INT) FROM TABLE t", "has the table's columns", None),
        ("CREATE STREAM s (a INT) FROM FILES '/d/*.csv' (ignore_errors true)", 'no option "ignore_errors"', 48),
        ("CREATE STREAM s (a INT) FROM KAFKA 'h:1/t' (on_gap 'hide')", "can't be 'hide'", None),
        ("CREATE STREAM s (a INT) FROM FILES '/d/*.csv' (start 'latest')", 'no option "start"', 48),
    ],
)
def test_feeds_that_cannot_be(text, message, place):
    with pytest.raises(InvalidStatement) as caught:
        parse_statement(text)
    assert message in str(caught.value) or message in (caught.value.hint or "")
    assert place is None or caught.value.column == place


def test_views():
    text = "CREATE CONTINUOUS VIEW impact (uid, mean COMMENT 'average') WITH (target_lag = '5 seconds') AS SELECT uid, 1 FROM posts"
    view = parse_statement(text)
    assert view.continuous
    assert [(alias.name, alias.comment) for alias in view.aliases] == [("uid", None), ("mean", "average")]
    assert view.query.text == "SELECT uid, 1 FROM posts"
    assert view.query.start == text.index("SELECT")
    plain = parse_statement("CREATE OR REPLACE VIEW v AS (SELECT 1)")
    assert (plain.continuous, plain.or_replace, plain.query.text) == (False, True, "(SELECT 1)")


def test_sample():
    assert parse_statement("CREATE SAMPLE s ON posts SIZE 1000 STRATIFIED BY (uid, b) SIZE 10 PER STRATUM WITH (seed = 7)") == CreateSample(
        name=WrittenName(parts=("s",)),
        relation=WrittenName(parts=("posts",)),
        size=1000,
        strata=("uid", "b"),
        size_per_stratum=10,
        options=parse_statement("CREATE SAMPLE s ON p SIZE 1 WITH (seed = 7)").options,
    )


def test_a_weighted_sample():
    weighted = parse_statement("CREATE SAMPLE s ON pays SIZE 5 WHERE fee > 1 WEIGHTED BY fee WITH (half_life = '1 hour', time_column = at)")
    assert (weighted.where.text, weighted.weight) == ("fee > 1", "fee")
    assert [(option.name, str(option.value)) for option in weighted.options] == [("half_life", "1:00:00"), ("time_column", "at")]
    assert parse_statement("CREATE SAMPLE s ON pays SIZE 5 WEIGHTED BY (fee)").weight == "fee"


def test_every_seed_that_the_lake_chooses_can_be_read_back():
    (seed,) = parse_statement(f"CREATE SAMPLE s ON p SIZE 1 WITH (seed = {(1 << 62) - 1})").options
    assert seed.value == (1 << 62) - 1


def test_a_sample_of_samples():
    merged = parse_statement("CREATE SAMPLE both ON SAMPLES (eu.posts, us) SIZE 10 WITH (seed = 7)")
    assert merged.reads == merged.parts == (WrittenName(parts=("eu", "posts")), WrittenName(parts=("us",)))
    assert (merged.relation, merged.size) == (merged.parts[0], 10)
    assert parse_statement("CREATE SAMPLE s ON samples SIZE 10").reads == (WrittenName(parts=("samples",)),)


def test_schema():
    assert parse_statement('CREATE SCHEMA IF NOT EXISTS "my schema"') == CreateSchema(name="my schema", if_not_exists=True)


@pytest.mark.parametrize("name", ["`we``ird`", '"we`ird"'])
def test_names_may_hold_anything_between_quotes(name):
    assert parse_statement(f"CREATE TABLE {name} (a INT)").name.relation == "we`ird"


@pytest.mark.parametrize(
    ("text", "said", "column"),
    [
        ("CREATE TABEL t (a INT)", "did you mean TABLE?", 8),
        ("CREATE TABLE t", "expected", 15),
        ("CREATE TABLE t ()", "expected", 17),
        ("CREATE TABLE a.b.c (x INT)", "a name of 3 parts", 14),
        ("CREATE TABLE t (a INT, A INT)", 'column "A" is named twice', 16),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", "one primary key", None),
        ("CREATE TABLE t (alpha INT, PRIMARY KEY (alpa))", "did you mean alpha?", 16),
        ("CREATE TABLE t (a INT DEFAULT 'x')", "is no INT", 31),
        ("CREATE TABLE t (a INT DEFAULT now())", "expected a literal", 31),
        ("CREATE TABLE t (a INT REFERENCES u)", "constraints are not kept", 23),
        ("CREATE TABLE t (a INT, UNIQUE (a))", "constraints are not kept", 24),
        ("CREATE TABLE t (a INT) AS SELECT 1", "not from both", 24),
        ("CREATE TABLE t (a INT) WITH (target_fil_size = 1)", "did you mean target_file_size?", 30),
        ("CREATE STREAM t (a INT) WITH (retention_row = 1)", "did you mean retention_rows?", 31),
        ("CREATE STREAM t (a INT) WITH (retention = 'soon')", "expected a duration", 43),
        ("CREATE STREAM t (a INT) WITH (on_overrun = 'abrt')", "did you mean abort?", 44),
        ("CREATE STREAM t (a INT) WITH (retention_rows = 1, retention_rows = 2)", "given twice", 51),
        ("CREATE STREAM t (a INT PRIMARY KEY)", "can't have a primary key", 15),
        ("CREATE STREAM t", "expected", 16),
        ("CREATE FOREIGN TABLE t (a INT) SERVER strem", "the only server is stream", 39),
        ("CREATE VIEW v AS SELCT 1", "did you mean SELECT?", 18),
        ("CREATE VIEW v SELECT 1", "expected", 15),
        ("CREATE SAMPLE s ON posts SIZE 0", "at least one row", 31),
        ("CREATE SAMPLE s ON posts", "expected SIZE", 25),
        ("CREATE SAMPLE s ON SAMPLES (a) SIZE 3", "needs two samples at least", 30),
        ("CREATE SAMPLE s ON SAMPLES (a, b) 3", "expected SIZE", 35),
        ("CREATE SAMPLE s ON SAMPLES (a, b) SIZE 3 WHERE x > 1", "a merged sample has no WHERE", 42),
        ("CREATE SAMPLE s ON SAMPLES (a, b) SIZE 3 STRATIFIED BY x", "a merged sample has no STRATIFIED", 42),
        ("CREATE VIEW v AS SELECT :x", "a definition has no parameters", 25),
        ("CREATE TABLE '; DROP TABLE x' (a INT)", "expected", 14),
        ('CREATE TABLE "" (a INT)', "a name has 1 to 255", 14),
        ("CREATE TABLE `a\nb` (a INT)", "a name has 1 to 255", 14),
        ("CREATE TABLE `" + "x" * 256 + "` (a INT)", "a name has 1 to 255", 14),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", "exclude each other", None),
    ],
)
def test_faults_show_the_place_and_the_way_out(text, said, column):
    with pytest.raises(InvalidStatement) as caught:
        parse_statement(text)
    assert said in str(caught.value)
    assert "^" in caught.value.detail
    if column is not None:
        assert caught.value.column == column


def test_five_hundred_columns():
    columns = ", ".join(f"c{index} DECIMAL(9,2) NOT NULL DEFAULT {index}" for index in range(500))
    assert len(parse_statement(f"CREATE TABLE t ({columns})").columns) == 500
