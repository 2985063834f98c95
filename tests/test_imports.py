"""`import platform_plugin` is cheap, and its public names come when they are asked for."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import platform_plugin

ROOT = Path(__file__).parent.parent
ENGINES = {"dagster", "duckdb", "great_expectations", "numpy", "pandas", "pyarrow", "pyspark", "sqlalchemy", "sqlglot"}


def run_python(code):
    """What a fresh interpreter without site hooks of ours prints as JSON."""
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_importing_the_package_loads_no_engine():
    loaded = run_python("import platform_plugin, sys, json; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))")
    assert "platform_plugin" in loaded
    assert ENGINES.isdisjoint(loaded)


def test_importing_the_package_takes_less_than_150_ms():
    code = "import time; t = time.process_time(); import platform_plugin; print(time.process_time() - t)"
    assert min(run_python(code) for _ in range(5)) < 0.150


@pytest.mark.parametrize("layer", ["algebra", "language"])
def test_the_pure_layers_load_neither_spark_nor_dagster_nor_pandas(layer):
    if find_spec(f"platform_plugin.{layer}") is None:
        pytest.skip(f"{layer} is not there yet")
    loaded = run_python(
        "import pkgutil, importlib, sys, json\n"
        f"import platform_plugin.{layer} as layer\n"
        "for module in pkgutil.walk_packages(layer.__path__, layer.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    assert {"dagster", "pandas", "pyspark"}.isdisjoint(loaded)


def test_the_version_is_a_release():
    assert re.fullmatch(r"\d+\.\d+\.\d+", platform_plugin.__version__)


def test_public_names_resolve_lazily_and_stay():
    loaded = run_python(
        "import platform_plugin, sys, json\n"
        "before = 'platform_plugin.errors' in sys.modules\n"
        "first = platform_plugin.PlatformError\n"
        "print(json.dumps([before, first is platform_plugin.PlatformError, 'PlatformError' in vars(platform_plugin)]))"
    )
    assert loaded == [False, True, True]


@pytest.mark.parametrize("name", ["Lake", "Platform", "PlatformError"])
def test_every_public_name_is_listed_and_leads_somewhere(name):
    assert name in dir(platform_plugin)
    if find_spec(platform_plugin._MODULES[name]) is None:
        pytest.skip(f"{name} comes with a later issue")
    assert getattr(platform_plugin, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        platform_plugin.Nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("library", "code", "extra"),
    [
        ("dagster", "import platform_plugin.orchestration", "dagster"),
        ("psycopg", "from platform_plugin import Lake; Lake.open('platform://me@127.0.0.1:1/db?data=/nowhere')", "postgres"),
    ],
)
def test_an_extra_that_is_missing_is_named_with_the_line_that_installs_it(library, code, extra):
    blocked = f"import sys; sys.modules[{library!r}] = None\ntry:\n    {code}\nexcept Exception as error:\n    told = str(error)"
    assert f'pip install "platform-plugin[{extra}]"' in run_python(f"{blocked}\nimport json; print(json.dumps(told))")
