"""A suite as a gate: a rebuilt table, a part of one and a batch of a feed are published only if they meet what is critical."""

from __future__ import annotations

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.orchestration import HistoryTable, PlatformResource, continuous_view, history_table, stream
from platform_plugin.orchestration.assets.assets import build_definitions
from platform_plugin.orchestration.assets.checks import check_names
from platform_plugin.orchestration.assets.inventory import read_inventory
from platform_plugin.orchestration.components.apply import run_model, run_parts
from platform_plugin.orchestration.components.model import parse_model, read_models
from platform_plugin.quality.gate import RowsRefused
from platform_plugin.quality.suite import parse_suite
from platform_plugin.select.overview import read_overview

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
    for statement in ("CREATE TABLE t (id INT, amount INT)", "CREATE VIEW t WITH (maintenance = 'eager') AS SELECT sum(id) AS id FROM s"):
        (tmp_path / "t.sql").write_text(statement)
        with pytest.raises(PlatformError, match=r'"t\.sql": the suite of "main\.t" is a gate, but no run publishes rows'):
            read_models(tmp_path)
    (tmp_path / "t.sql").write_text("CREATE VIEW t AS SELECT sum(id) AS id FROM s")
    assert read_models(tmp_path)[0].suite.gate


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM s (id INT, amount INT) WITH (suite = '../lax.yml')",
        "CREATE TABLE s (id INT, amount INT) WITH (suite = '../lax.yml')",
        "CREATE VIEW s WITH (suite = '../lax.yml') AS SELECT id, sum(amount) AS amount FROM t GROUP BY id",
    ],
)
def test_a_statement_names_a_suite_which_is_its_checks(tmp_path, statement):
    (tmp_path / "lax.yml").write_text(SUITE.replace("gate: true", "gate: false"))
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "s.sql").write_text(statement)
    (model,) = read_models(folder)
    assert check_names(model) == ["expect_column_values_to_be_between__amount", "expect_column_values_to_be_unique__id"]
    (folder / "s.yml").write_text("suite: ../other.yml")
    with pytest.raises(PlatformError, match=r'"main\.s" names two suites, "\.\./lax\.yml" and "\.\./other\.yml"'):
        read_models(folder)


def test_a_lake_names_the_suite_that_its_file_names(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yml").write_text(SUITE.replace("gate: true", "gate: false"))
    statement = "CREATE {} s (id INT, amount INT) WITH ({}suite = '{}.yml')"
    with Platform.create(tmp_path / "lake") as platform:
        for kind, more in (("STREAM", "retention_rows = 5, "), ("TABLE", "")):
            for suite, action in (("a", "created"), ("a", "unchanged"), ("b", "altered")):
                (tmp_path / "s.sql").write_text(statement.format(kind, more, suite))
                assert run_model(platform, read_models(tmp_path)[0]).action == action
                assert next(iter(platform.execute("SHOW CREATE s")))[0].endswith(f"WITH ({more}suite = '{suite}.yml')")
            platform.execute(f"ALTER {kind} s SET (suite = 'c.yml')")
            assert next(iter(platform.execute("SHOW CREATE s")))[0].endswith(f"WITH ({more}suite = 'c.yml')")
            platform.execute(f"DROP {kind} s")


def test_decorators_name_a_suite_and_bring_its_checks(tmp_path):
    file = tmp_path / "s.yml"
    file.write_text(SUITE.replace("gate: true", "gate: false"))
    names = {"expect_column_values_to_be_between__amount", "expect_column_values_to_be_unique__id"}

    def query():
        return "SELECT id, sum(amount) AS amount FROM sold GROUP BY id"

    made = [
        history_table(name="t", suite=str(file))(query),
        stream("sold", {"id": "INT", "amount": "INT"}, suite=str(file)),
        continuous_view(name="v", suite=str(file))(query),
    ]
    for asset in made:
        assert {spec.name for spec in asset.check_specs} == names
    assert {spec.asset_key.to_user_string() for spec in made[-1].check_specs} == {"v"}, "the view is checked and not its base"
    with pytest.raises(InvalidValue, match=r'both suite "a\.yml" and gate "b\.yml" are named'):
        history_table(suite="a.yml", gate="b.yml")(query)


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


@pytest.mark.spark
def test_a_view_shows_the_options_that_it_was_created_with(tmp_path, spark_server):
    file = tmp_path / "v.sql"
    (tmp_path / "lax.yml").write_text(SUITE.replace("gate: true", "gate: false"))
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM sold (id INT, amount INT)")
        for written in (
            "(target_lag = '90 seconds', suite = 'lax.yml') AS SELECT id, sum(amount) AS amount FROM sold GROUP BY id",
            "(suite = 'lax.yml') AS SELECT 1 AS id, 2 AS amount",
        ):
            file.write_text(f"CREATE VIEW v WITH {written}")
            (model,) = read_models(tmp_path)
            assert [run_model(platform, model).action for _ in range(2)][1] == "unchanged"
            (shown,) = next(iter(platform.execute("SHOW CREATE v")))
            assert shown == f"CREATE VIEW main.v WITH {written}"
            assert ("# suite", "lax.yml") in [row[:2] for row in platform.execute("DESCRIBE EXTENDED v")]
            file.write_text(
                f"CREATE VIEW v WITH {written}".replace("suite = 'lax.yml'", "start = 'now'" if "lag" in written else "suite = 'v.sql'")
            )
            model = parse_model(file.read_text(), file="v.sql")
            assert run_model(platform, model).action == ("altered" if "lag" in written else "replaced")


@pytest.mark.slow
@pytest.mark.spark
def test_a_view_whose_result_breaks_a_gate_fails_in_dagster_and_keeps_its_old_result(tmp_path, spark_server):
    pytest.importorskip("great_expectations")
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "sold.sql").write_text("CREATE STREAM sold (id INT, amount INT)")
    (folder / "best.sql").write_text(
        "CREATE VIEW best WITH (suite = '../strict.yml') AS SELECT id, sum(amount) AS amount FROM sold GROUP BY id"
    )
    (tmp_path / "strict.yml").write_text(SUITE)
    resources = {"platform": PlatformResource(url=str(tmp_path / "lake"), create=True)}

    def materialize(*keys):
        built = build_definitions(read_models(folder), read_inventory(str(tmp_path / "lake")))
        assets = [*(each for each in built.assets if isinstance(each, dg.AssetsDefinition)), *built.asset_checks]
        return dg.materialize(assets, selection=list(keys), resources=resources, raise_on_error=False)

    assert materialize("sold").success
    with Platform.open(tmp_path / "lake") as platform:
        assert materialize("best/best_base", "best").success
        platform.execute("INSERT INTO sold VALUES (1, 5), (2, 7)")
        assert materialize("best/best_base", "best").success
        platform.execute("INSERT INTO sold VALUES (2, -8)")
        failed = materialize("best/best_base", "best")
        told = str(next(event for event in failed.all_events if event.is_step_failure).step_failure_data.user_failure_data)
        for part in ('the result of view "main.best" was not published', 'suite "../strict.yml"', "values_to_be_between__amount: not met"):
            assert part in told
        assert sorted(platform.execute("SELECT * FROM best")) == [(1, 5), (2, -1)]
        assert sorted(platform.execute("SELECT * FROM best AT (GATE => 'passed')")) == [(1, 5), (2, 7)]
        (stall,) = read_overview(str(platform.lake.location)).stalls
        assert (stall.name, stall.cause, stall.suite, stall.row_count) == ("best", "gate", "../strict.yml", 2)
        (tmp_path / "strict.yml").write_text(SUITE.replace("gate: true", "gate: false"))
        assert materialize("best/best_base").success
        assert read_overview(str(platform.lake.location)).stalls == (), "a suite that is no gate holds back nothing"


@pytest.mark.slow
@pytest.mark.spark
def test_the_assets_of_decorators_are_checked_in_their_own_steps(tmp_path, spark_server):
    pytest.importorskip("great_expectations")
    file = tmp_path / "s.yml"
    file.write_text(SUITE.replace("gate: true", "gate: false"))

    @history_table(suite=str(file))
    def t():
        return "SELECT 1 AS id, -2 AS amount"

    sold = stream("sold", {"id": "INT", "amount": "INT"}, suite=str(file))

    @continuous_view(suite=str(file))
    def v():
        return "SELECT id, sum(amount) AS amount FROM sold GROUP BY id"

    resources = {"platform": PlatformResource(url=str(tmp_path / "lake"), create=True)}
    for asset, failing in ((t, 1), (sold, 0), (v, 0)):
        done = dg.materialize([asset], resources=resources)
        assert [found.passed for found in done.get_asset_check_evaluations()].count(False) == failing
        assert len(done.get_asset_check_evaluations()) == 2
    only = dg.materialize([t], resources=resources, selection=dg.AssetSelection.checks(next(iter(t.check_keys))))
    assert (len(only.get_asset_materialization_events()), len(only.get_asset_check_evaluations())) == (0, 1)


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
