"""What functions may be told, and what else in a query could reach a file, an address or a class."""

import struct
import zipfile
from pathlib import Path

import pyspark
import pytest

from platform_plugin.algebra.functions import REFUSED_FUNCTIONS, TABLE_FUNCTIONS
from platform_plugin.errors import InvalidStatement
from platform_plugin.language.query.call_options import CALL_OPTIONS, TAKES_OPTIONS
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.script import parse_statement
from tests.engine.spark.functions import FUNCTIONS, OPTIONS_REFUSED, SOURCES, STATEMENTS

JARS = Path(pyspark.__file__).parent / "jars"
READERS = {"csv": "catalyst/csv/CSVOptions$", "json": "catalyst/json/JSONOptions$", "xml": "catalyst/xml/XmlOptions$"}
# Constants of those classes that are values of options.
VALUES = {"", "ROW", "ROWS", "_", "_VALUE", "item", "xs_any", 'version="1.0" encoding="UTF-8" standalone="yes"'}


@pytest.mark.parametrize(
    "call",
    [
        "from_json(a, 'x INT')",
        "from_json(a, 'x INT', map('mode', 'FAILFAST', 'columnNameOfCorruptRecord', \"c\"))",
        'from_json(a, \'{"type":"struct","fields":[{"name":"udt","type":"integer","nullable":true,"metadata":{}}]}\')',
        "from_csv(a, 'x INT', MAP('sep', '|'))",
        "from_xml(a, system.builtin.schema_of_xml('<a/>', map('rowTag', 'x')), map('rowTag', 'x'))",
        "to_json(a, map('pretty', 'true'))",
        "schema_of_csv('1,abc')",
    ],
)
def test_calls_with_literal_options_pass(call):
    assert analyse_query(f"SELECT /*+ REPARTITION(3, `a`), BROADCAST(t) */ {call} FROM t").relations


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("from_xml(a, 'x INT', map('rowValidationXSDPath', '/etc/passwd'))", 'option "rowValidationXSDPath" of from_xml is refused'),
        ("from_xml(a, 'x INT', map('mode', 'x', 'ROWVALIDATIONXSDPATH', 'http://x'))", "is refused"),
        ("`From_XML`(a, 'x INT', map('rowValid' 'ationXSDPath', '/x'))", "is refused"),
        (r"from_xml(a, 'x INT', map('rowValid\u0061tionXSDPath', '/x'))", "is refused"),
        ("from_xml(map < 1, 'x INT', map('rowValidationXSDPath', '/x'))", "is refused"),
        ("schema_of_xml(a, map('rowValidationXSDPath', '/x'))", "is refused"),
        ("from_xml(a, schema_of_xml('<a/>', map('rowValidationXSDPath', '/x')))", "is refused"),
        ("from_avro(a, '{}', map('avroSchemaUrl', 'http://x'))", "is refused"),
        ("from_json(a, 'x INT', map('mod', 'x'))", "did you mean mode?"),
        ("from_xml(a, 'x INT', map(concat('row', 'Tag'), '/x'))", "are not literals"),
        ("from_xml(a, 'x INT', map('rowTag', b))", "are not literals"),
        ("from_xml(a, 'x INT', map())", "are not literals"),
        ("from_xml(a, 'x INT', options)", "not a map of literals"),
        ("from_xml(a, 'x INT', :options)", "not a map of literals"),
        ("builtin.from_xml(a, 'x INT', (map('rowTag', 'x')))", "not a map of literals"),
        ("from_xml(a, :schema)", "not a literal"),
        ("from_json(a, concat('x', ' INT'))", "not a literal"),
        ("from_json(a, schema_of_json('{}') || ', x INT')", "not a literal"),
        ('from_json(a, \'{"type":"udt","class":"x.Y","pyClass":null,"sqlType":"integer"}\')', "names a class"),
        (r"""from_json(a, ' {"type":"\\u0075dt"}')""", "names a class"),
        ("from_json(a, '{type: udt}')", "can't be read"),
    ],
)
def test_calls_that_could_reach_further_are_refused(call, said):
    with pytest.raises(InvalidStatement) as caught:
        analyse_query(f"SELECT {call} FROM t")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT /*+ X((SELECT 1 FROM text.`/etc/passwd`)) */ 1", "an expression inside a hint"),
        ("SELECT /*+ X(java_method('a.B', 'c')) */ 1", "an expression inside a hint"),
        ("SELECT /*+ X(a[1]) */ 1", "an expression inside a hint"),
        ("SELECT * FROM explode(TABLE(text.`/etc/passwd`))", "a table as an argument"),
        ("SELECT * FROM a, LATERAL python_worker_logs() x", "table function python_worker_logs is refused"),
        ("SELECT * FROM a LATERAL VIEW OUTER builtin.`python_worker_logs`() x", "is refused"),
        ("SELECT TRANSFORM (a) USING :script FROM t", "scripts in queries are refused"),
        ("SELECT TRANSFORM (a) USING ? FROM t", "scripts in queries are refused"),
    ],
)
def test_other_ways_to_a_file_or_to_code_are_refused(text, said):
    with pytest.raises(InvalidStatement) as caught:
        analyse_query(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_of_spark_that_reach_further_are_not_ours(statement):
    with pytest.raises(InvalidStatement):
        parse_statement(statement)


def test_the_table_of_functions_is_what_the_package_does():
    refused = {name for group in FUNCTIONS if group.verdict == "refused" for name in group.names.split()}
    assert refused == REFUSED_FUNCTIONS | {"python_worker_logs"}
    assert {name for group in FUNCTIONS if group.verdict == "options" for name in group.names.split()} == set(TAKES_OPTIONS)
    assert TABLE_FUNCTIONS - {"unnest"} <= {name for group in FUNCTIONS if group.reason.startswith("rows") for name in group.names.split()}


@pytest.mark.parametrize("kind", [*READERS, "avro"])
def test_every_option_of_a_reader_is_in_the_list_or_refused(kind):
    jar, name = ("sql", "avro/AvroOptions$") if kind == "avro" else ("catalyst", READERS[kind])
    (path,) = JARS.glob(f"spark-{jar}_*.jar")
    with zipfile.ZipFile(path) as classes:
        found = set(_constants(classes.read(f"org/apache/spark/sql/{name}.class")))
    options = {text for text in found if text.strip() not in VALUES}
    assert "mode" in options
    assert options - CALL_OPTIONS[kind] == options & set(OPTIONS_REFUSED)
    assert not CALL_OPTIONS[kind] & set(OPTIONS_REFUSED)


def test_every_data_source_is_known():
    found = set()
    for path in JARS.glob("spark-*.jar"):
        with zipfile.ZipFile(path) as classes:
            for name in classes.namelist():
                if name.endswith("services/org.apache.spark.sql.sources.DataSourceRegister"):
                    lines = classes.read(name).decode().splitlines()
                    found |= {".".join(line.split(".")[-2:]) for line in lines if line and not line.startswith("#")}
    known = {".".join(name.split(".")[-2:]) for name in SOURCES.split()}
    assert found == known


def _constants(content):
    """The string constants of a Java class."""
    count, place, index = struct.unpack(">H", content[8:10])[0], 10, 1
    texts, used = {}, []
    while index < count:
        tag = content[place]
        if tag == 1:
            length = struct.unpack(">H", content[place + 1 : place + 3])[0]
            texts[index] = content[place + 3 : place + 3 + length].decode("utf-8", "replace")
            place += 3 + length
        else:
            if tag == 8:
                used.append(struct.unpack(">H", content[place + 1 : place + 3])[0])
            place += {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 15: 4, 16: 3, 19: 3, 20: 3}.get(tag, 5)
            index += tag in (5, 6)
        index += 1
    return [texts[one] for one in used]
