"""What a query can reach through Spark itself: the list of its functions, and parsers that open no address."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from platform_plugin.engine.spark.server.settings import PARSER_FLAGS, ServerSettings, plan_java_options, plan_options
from platform_plugin.errors import QueryFailed
from platform_plugin.language.query.query import analyse_query
from tests.engine.spark.functions import FUNCTIONS


@pytest.fixture
def web():
    """A server that must not be asked anything: `web.asked`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.spark
def test_every_function_of_spark_was_looked_at(spark_session):
    listed = [function.name.rpartition(".")[2] for function in spark_session.spark.catalog.listFunctions()]
    known = [name for group in FUNCTIONS for name in group.names.split()]
    assert sorted(set(known)) == sorted(known)
    assert {*listed} == {*known}


def test_functions_that_are_not_refused_pass():
    words = {"between", "case", "when", "array", "struct", "map", "interval", "table"}
    for group in FUNCTIONS:
        names = [name for name in group.names.split() if name.replace("_", "").isalnum() and name not in words]
        for name in names if group.verdict != "refused" else ():
            assert [found.name.relation for found in analyse_query(f"SELECT `{name}`('x') FROM t").relations] == ["t"]


@pytest.mark.spark
def test_parsers_open_no_address_and_no_file_that_a_document_names(spark_session, web, tmp_path):
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "outer.xsd").write_text(
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:include schemaLocation="http://127.0.0.1:{web.server_port}/inner.xsd"/>'
        '<xs:element name="a"/></xs:schema>'
    )
    address = f"http://127.0.0.1:{web.server_port}/x"
    for place in (address, f"file://{tmp_path}/secret"):
        for document in (f'<!DOCTYPE a SYSTEM "{place}"><a>1</a>', f'<!DOCTYPE a [<!ENTITY e SYSTEM "{place}">]><a><b>&e;</b></a>'):
            for call in ("xpath_string(:d, '/a')", "from_xml(:d, 'b STRING')", "CAST(xpath(:d, '/a') AS STRING)"):
                try:
                    rows = spark_session.arrow(f"SELECT CAST({call} AS STRING) AS said", parameters={"d": document}).read_all().to_pylist()
                except QueryFailed:
                    continue
                assert "secret" not in str(rows)
    # Refused in queries; the server does not do it for anybody else either.
    for place in (address, str(tmp_path / "outer.xsd")):
        with pytest.raises(QueryFailed):
            spark_session.arrow(f"SELECT from_xml('<a>1</a>', 'a INT', map('rowValidationXSDPath', '{place}'))").read_all()
    assert web.asked == []


def test_executors_of_a_cluster_parse_as_carefully(tmp_path):
    assert set(PARSER_FLAGS) <= set(plan_java_options(ServerSettings(), tmp_path))
    assert plan_options(ServerSettings(master="yarn"), tmp_path)["spark.executor.extraJavaOptions"].split() == list(PARSER_FLAGS)
