"""A suite as a gate: a rebuilt table, a part of one and a batch of a feed are published only if they meet what is critical."""

from __future__ import annotations

import pytest

from platform_plugin import Platform
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.orchestration import HistoryTable, history_table
from platform_plugin.orchestration.components.apply import run_model, run_parts
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.quality.gate import RowsRefused
from platform_plugin.quality.suite import parse_suite

SUITE = """
gate: true
expectations:
  - type: expect_column_values_to_be_between
    kwargs: {column: amount, min_value: 0}
  - type: expect_column_values_to_be_unique
    kwargs: {column: id}
    severity: warning
"""


def test_a_gate_that_nothing_closes_or_nobody_passes_is_refused(tmp_path):
    warned = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}, "severity": "warning"}
    with pytest.raises(InvalidValue, match="a gate that nothing can close"):
        parse_suite({"gate": True, "expectations": [warned]}, file="t.expectations.yml")
    with pytest.raises(InvalidValue, match='gate is "often"'):
        parse_suite({"gate": "often", "expectations": [warned]}, file="t.expectations.yml")
    (tmp_path / "t.sql").write_text("CREATE TABLE t (id INT, amount INT)")
    (tmp_path / "t.expectations.yml").write_text(SUITE)
    with pytest.raises(PlatformError, match=r'"t\.sql": the suite of "main\.t" is a gate, but no run publishes rows'):
        read_models(tmp_path)


def test_a_suite_is_named_in_yaml_in_a_component_and_in_python_alike(tmp_path):
    (tmp_path / "strict.yml").write_text(SUITE)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "t.sql").write_text("CREATE TABLE t AS SELECT 1 AS id, 2 AS amount")
    (tmp_path / "sql" / "t.yml").write_text("suite: ../strict.yml")
    (from_yaml,) = read_models(tmp_path / "sql")
    named = HistoryTable(name="t", query="SELECT 1 AS id, 2 AS amount", suite="strict.yml")
    from_component = named.model_at(tmp_path / "defs.yaml")
    assert from_yaml.suite == from_component.suite
    assert from_yaml.suite.gate
    (tmp_path / "sql" / "t.yml").write_text("suite: ../lax.yml")
    with pytest.raises(PlatformError, match=r'suite "\.\./lax\.yml" of "t\.sql" does not exist'):
        read_models(tmp_path / "sql")

    def t():
        return "SELECT 1 AS id, 2 AS amount"

    assert history_table(gate=str(tmp_path / "strict.yml"))(t).key.to_user_string() == "t"
    (tmp_path / "lax.yml").write_text(SUITE.replace("gate: true", "gate: false"))
    with pytest.raises(InvalidValue, match=r'of "t" is no gate'):
        history_table(gate=str(tmp_path / "lax.yml"))(t)


@pytest.mark.slow
@pytest.mark.spark
def test_what_breaks_a_critical_expectation_is_not_published(tmp_path, spark_server):
    pytest.importorskip("great_expectations")
    folder, inbox = tmp_path / "sql", tmp_path / "in"
    folder.mkdir()
    inbox.mkdir()
    (folder / "sold.sql").write_text(f"CREATE STREAM sold (id INT, amount INT) FROM FILES '{inbox}/*.csv' (FORMAT csv)")
    (folder / "best.sql").write_text("CREATE TABLE best AS SELECT id, amount FROM source")
    (folder / "best.yml").write_text("partitions: {column: id, rows: 10}")
    for name in ("sold", "best"):
        (folder / f"{name}.expectations.yml").write_text(SUITE)
    models = {model.name.relation: model for model in read_models(folder)}
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE source (id INT, amount INT); INSERT INTO source VALUES (1, 5), (1, 7)")
        run_model(platform, models["best"])
        platform.execute("INSERT INTO source VALUES (2, -3)")
        before = platform.lake.snapshot().id
        for publish in (lambda: run_model(platform, models["best"]), lambda: run_parts(platform, models["best"], [(0, 10)])):
            with pytest.raises(RowsRefused, match=r'nothing was published in "main\.best": 1 of 1 critical') as refused:
                publish()
            assert "expect_column_values_to_be_between__amount: not met\n  id 2, amount -3" in refused.value.detail
        assert platform.lake.snapshot().id == before
        assert sorted(row["amount"] for row in platform.lake.read("best").to_pylist()) == [5, 7]

        (inbox / "1.csv").write_text("1,5\n2,-1\n")
        with pytest.raises(RowsRefused, match=r'nothing was published in "main\.sold"'):
            run_model(platform, models["sold"])
        assert platform.lake.read("sold").num_rows == 0
        (inbox / "1.csv").write_text("1,5\n2,1\n")
        run_model(platform, models["sold"])
        assert platform.lake.read("sold")["amount"].to_pylist() == [5, 1], "the batch comes again once it is corrected"
