"""The engine that is asked for: of a run before that of a relation, and this before the lake's."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from platform_plugin.engine.figures import EngineRun
from platform_plugin.engine.option import EngineOption, check_engine, narrow_engine, read_engine
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.platform import Platform


def test_caller_url_and_environment_in_this_order():
    environment = {"PLATFORM_ENGINE": "spark_sql"}
    assert read_engine(environment={}) == EngineOption("auto", "default")
    assert read_engine(environment=environment) == EngineOption("spark_sql", "environment PLATFORM_ENGINE")
    assert read_engine(url="executors", environment=environment) == EngineOption("executors", "URL engine")
    assert read_engine("LOCAL", url="executors", environment=environment) == EngineOption("local", "option engine")


def test_run_relation_and_lake_in_this_order():
    lake = EngineOption("local", "URL engine")
    assert narrow_engine(lake, relation=None, run=None) is lake
    assert narrow_engine(lake, relation="executors", run=None).name == "executors"
    assert narrow_engine(lake, relation="executors", run="auto") == EngineOption("auto", "option of the run")


@pytest.mark.parametrize(
    ("wrong", "hint"), [("executor", "did you mean executors?"), ("flink", "write auto, local, executors or spark_sql")]
)
def test_another_name_is_refused_with_all_four(wrong, hint):
    with pytest.raises(InvalidValue, match="engine can't be") as caught:
        check_engine(wrong)
    assert hint in caught.value.hint
    assert "auto, local, executors or spark_sql" in caught.value.hint


def test_a_lake_has_it_from_its_url(tmp_path, monkeypatch):
    url = f"platform+local://{tmp_path}/lake"
    location = Location.parse(f"{url}?engine=executors")
    assert (location.engine, str(location)) == ("executors", f"{url}?engine=executors")
    assert Location.parse("platform://u@h/d?data=s3://b/p&engine=local").engine == "local"
    with Platform.create(f"{url}?engine=executors") as platform:
        assert platform.work.engine == "executors"
    monkeypatch.setenv("PLATFORM_ENGINE", "spark_sql")
    with Platform.open(url) as platform:
        assert platform.work.engine_option == EngineOption("spark_sql", "environment PLATFORM_ENGINE")
    with Platform.open(url, engine="local") as platform:
        assert platform.work.engine == "local"
    with pytest.raises(InvalidValue, match='URL can\'t be "spark"'):
        Platform.open(f"{url}?engine=spark")


def test_a_connection_of_sqlalchemy_has_it_from_its_url_or_its_arguments(tmp_path):
    url = f"platform+local://{tmp_path}/lake"
    Platform.create(url).close()
    for given, arguments, name in ((f"{url}?engine=executors", {}, "executors"), (url, {"engine": "local"}, "local"), (url, {}, "auto")):
        engine = sa.create_engine(given, connect_args=arguments)
        with engine.connect() as connection:
            assert connection.connection.dbapi_connection.platform.work.engine == name
        engine.dispose()


def test_a_run_asks_for_itself_alone(tmp_path):
    with Platform.create(tmp_path / "lake", engine="local") as platform:
        work = platform.work
        assert work.find_engine("executors") == "executors"
        with work.asking("spark_sql"):
            assert (work.engine, work.find_engine("executors")) == ("spark_sql", "spark_sql")
            assert work.run_engines().offer("local").option == EngineOption("spark_sql", "option of the run")
            with work.asking(None):
                assert work.engine == "local"
        assert work.engine == "local"
        with ThreadPoolExecutor(max_workers=1) as pool, work.asking("executors"):
            assert pool.submit(lambda: work.engine).result() == "local", "another thread runs for somebody else"


def test_what_engines_did_is_noted_for_whoever_asks(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        work, run = platform.work, EngineRun(engine="local", relations=(), why="")
        work.note_engine(run)
        with work.noting_engines() as outer:
            with work.noting_engines() as inner:
                work.note_engine(run)
            work.note_engine(run)
        assert (len(inner), len(outer)) == (1, 2)
