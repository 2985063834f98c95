"""Limits: each can be set in every place, the nearest one wins, and bad values are refused with a hint."""

import argparse
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.cli.arguments import build_parser
from platform_plugin.dialect import dbapi
from platform_plugin.engine.limits import LIMITS, Limits, list_limits, read_limits
from platform_plugin.engine.workspace import Workspace
from platform_plugin.errors import InvalidValue
from platform_plugin.platform import Platform

ROOT = Path(__file__).parents[2]
NAMES = st.sampled_from([facts.name for facts in LIMITS])
VALUES = st.dictionaries(NAMES, st.integers(1, 1 << 40), max_size=4)


@given(environment=VALUES, url=VALUES, options=VALUES)
def test_the_nearest_place_wins_and_is_named(environment, url, options):
    limits = read_limits(
        options,
        url={name: str(value) for name, value in url.items()},
        environment={f"PLATFORM_LIMIT_{name.upper()}": str(value) for name, value in environment.items()} | {"PATH": "/bin"},
    )
    expected = {facts.name: facts.default for facts in LIMITS} | environment | url | options
    assert {row["name"]: row["value"] for row in list_limits(limits)} == expected
    for row in list_limits(limits):
        name = row["name"]
        places = [(options, f"option {name}"), (url, f"URL limit_{name}"), (environment, f"environment PLATFORM_LIMIT_{name.upper()}")]
        assert row["set_by"] == next((text for given, text in places if name in given), "default")


def test_a_limit_says_what_it_decides_and_where_its_default_comes_from():
    for facts in LIMITS:
        assert facts.unit in {"rows", "bytes", "files", "positions"}, facts.name
        assert facts.default >= facts.least
        assert len(facts.decides) > 20
        said = ("make bench NAME=", "the decision for two engines", "no figure")
        assert any(part in facts.measured for part in said), facts.name
        for name in re.findall(r"make bench NAME=(\w+)", facts.measured):
            assert (ROOT / "tests" / "benchmarks" / f"{name}.py").exists(), name


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"broadcast_byte": 1}, '"broadcast_byte" is no limit', "did you mean broadcast_bytes?"),
        ({"wings": 1}, '"wings" is no limit', "SHOW LIMITS lists them"),
        ({"broadcast_bytes": "large"}, 'limit "broadcast_bytes" is "large", which is no number of bytes', "64 MiB"),
        ({"broadcast_bytes": -1}, "no number of bytes", "64 MiB"),
        ({"client_tail_rows": "1.5"}, "no number of rows", "a whole number of rows"),
        ({"client_tail_rows": True}, "no number of rows", "a whole number of rows"),
        ({"client_tail_rows": 1 << 63}, "no number of rows", "a whole number of rows"),
        ({"estimate_rows": 0}, "no number of rows", "at least 1"),
    ],
)
def test_a_bad_value_is_refused(options, message, hint):
    with pytest.raises(InvalidValue) as refused:
        read_limits(options, environment={})
    assert message in refused.value.message
    assert hint in str(refused.value.hint)


def test_amounts_may_have_units():
    limits = read_limits({"broadcast_bytes": "1.5 GiB", "client_tail_rows": "1_000"}, environment={})
    assert (limits.broadcast_bytes, limits.client_tail_rows) == (3 << 29, 1000)


@pytest.fixture
def lake(tmp_path):
    Platform.create(tmp_path / "lake").close()
    return tmp_path / "lake"


def shown(platform, name):
    (row,) = platform.execute(f"SHOW LIMITS LIKE '{name}'").arrow().to_pylist()
    return row["value"], row["default"], row["set_by"]


def test_show_limits_lists_all_with_their_origin(lake, monkeypatch):
    monkeypatch.setenv("PLATFORM_LIMIT_PLAN_FILES", "7")
    with Platform.open(f"platform+local://{lake}?limit_broadcast_bytes=1KiB", limits={"estimate_rows": 9}) as platform:
        rows = platform.execute("SHOW LIMITS").arrow().to_pylist()
        assert [row["name"] for row in rows] == [facts.name for facts in LIMITS]
        assert shown(platform, "plan_files") == (7, 1000, "environment PLATFORM_LIMIT_PLAN_FILES")
        assert shown(platform, "broadcast_bytes") == (1024, 64 << 20, "URL limit_broadcast_bytes")
        assert shown(platform, "estimate_rows") == (9, 500_000, "option estimate_rows")
        assert shown(platform, "client_tail_rows") == (250_000, 250_000, "default")


def test_the_url_keeps_its_limits_and_a_wrong_one_opens_nothing(lake):
    url = f"platform+local://{lake}?limit_plan_files=3"
    with Platform.open(url) as platform:
        assert str(platform.lake.location) == url
        assert Workspace(platform.lake).limits.plan_files == 3
    with pytest.raises(InvalidValue, match="limit_plan_file"):
        Platform.open(f"platform+local://{lake}?limit_plan_file=3")
    with pytest.raises(InvalidValue, match="unknown option"):
        Platform.open(f"platform+local://{lake}?plan_files=3")


def test_the_dialect_takes_limits_by_url_and_by_arguments(lake):
    engine = sa.create_engine(f"platform+local://{lake}?limit_plan_files=3", connect_args={"limits": {"plan_positions": 4}})
    with engine.connect() as connection:
        found = {row.name: row.value for row in connection.exec_driver_sql("SHOW LIMITS LIKE 'plan%'")}
    engine.dispose()
    assert found == {"plan_files": 3, "plan_positions": 4}
    with dbapi.connect(lake, limits={"plan_files": "5"}) as connection:
        assert shown(connection.platform, "plan_files")[0] == 5
    with pytest.raises(dbapi.Error, match="no limit"):
        dbapi.connect(lake, limits={"wings": 1})


def test_commands_that_compute_take_limits():
    commands = next(action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    takes = {name for name, parser in commands.items() if any("--engine-limit" in action.option_strings for action in parser._actions)}
    assert takes == {"sql", "ingest", "maintain", "merge", "plot", "validate"}


def test_workspaces_of_one_lake_have_their_own(lake):
    with Platform.open(lake, limits={"small_table_bytes": 0}) as first, Platform.open(lake) as second:
        assert first.work.limits.small_table_bytes == 0
        assert second.work.limits == Limits()


def test_the_page_has_each_limit_with_its_default():
    page = (ROOT / "docs" / "operations" / "limits.md").read_text()
    rows = {
        cells[0].strip("` "): cells[1:] for line in page.splitlines() if line.startswith("| `") and (cells := line.strip("|").split(" | "))
    }
    assert list(rows) == [facts.name for facts in LIMITS]
    for facts in LIMITS:
        default, decides, measured = (cell.strip() for cell in rows[facts.name])
        assert (read_limits({facts.name: default}, environment={}), decides, measured) == (Limits(), facts.decides, facts.measured)


def test_dagster_takes_limits_in_the_component_and_in_the_resource(lake):
    from platform_plugin.orchestration import Lake, PlatformResource

    resource = PlatformResource(url=str(lake), limits={"plan_files": "5"})
    with resource.opened("run"):
        assert shown(resource.platform, "plan_files") == (5, 1000, "option plan_files")
        assert resource.platform.work.limits.plan_files == 5
    definitions = Lake(url=str(lake), limits={"plan_files": 6}).build_defs(SimpleNamespace(project_root=lake.parent))
    made = definitions.resources["platform"]
    with made.opened("run"):
        assert made.platform.work.limits.plan_files == 6


def test_the_statement_of_the_page_runs(tmp_path):
    page = (ROOT / "docs" / "operations" / "limits.md").read_text()
    (statement,) = re.findall(r"```sql\n(.*?);\n```", page)
    with Platform.create(tmp_path / "lake") as platform:
        assert [row[0] for row in platform.execute(statement)] == ["client_range_rows", "client_range_bytes"]
