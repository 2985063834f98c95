"""docs/howto/sensor.md: a sensor is a module with its decision and a line of the list."""

import dagster as dg
import pyarrow as pa
import pytest

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration import Upkeep
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.sensors import loops
from platform_plugin.platform import Platform
from tests.howto.merging import MERGING, MOST_FILES, plan_merge

USUAL = {"split_refresh", "reservoir_merge", "bounded_ingestion", "stream_arrivals", "rebuilding"}


@pytest.fixture
def registered():
    loops.SENSORS.append(MERGING)
    yield
    loops.SENSORS.remove(MERGING)


@pytest.fixture
def lake(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE users (id INT)")
        platform.execute("CREATE TABLE empty (id INT)")
        for number in range(MOST_FILES + 1):
            with platform.lake.commit("one more") as commit:
                table = platform.lake.table("users")
                commit.append(table, platform.lake.write_files(table, pa.table({"id": pa.array([number], pa.int32())})))
    return tmp_path / "lake"


def test_the_decision_is_made_of_values():
    files = {Name.of("users"): 4, Name.of("empty"): 0}
    (ask,) = plan_merge(files, 7).asks
    assert (ask.relations, ask.reason) == ((Name.of("users"),), "4 small files")
    assert plan_merge({Name.of("users"): 3}, 7).reason == "no table has more than 3 small files"


@pytest.mark.usefixtures("registered")
def test_a_tick_asks_for_a_run_and_the_run_leaves_nothing_to_ask_for(lake):
    definitions = loops.build_loops(str(lake), Translator())
    sensor = definitions.get_repository_def().get_sensor_def("file_merge")
    with dg.DagsterInstance.ephemeral() as instance:

        def tick():
            context = dg.build_sensor_context(instance=instance, repository_def=definitions.get_repository_def())
            return sensor.evaluate_tick(context)

        (request,) = tick().run_requests
        assert (request.tags["for"], request.tags["why"], request.job_name) == ("users", "4 small files", "merge_files")
        done = definitions.resolve_job_def("merge_files").execute_in_process(instance=instance, run_config=request.run_config)
        assert done.success
        assert tick().skip_message == "no table has more than 3 small files"
    with Platform.open(lake) as platform:
        assert sorted(platform.execute("SELECT id FROM users")) == [(0,), (1,), (2,), (3,)]


@pytest.mark.usefixtures("registered")
def test_components_bring_it_once_and_can_leave_it_out():
    names = {sensor.name for sensor in loops.build_loops("nowhere", Translator()).sensors}
    assert names == {*USUAL, "file_merge"}
    assert {sensor.name for sensor in loops.build_loops("nowhere", Translator(), without={"merge"}).sensors} == USUAL
    assert Upkeep().brings("merge"), "what no attribute switches off is there"
    assert not Upkeep(refresh=False).brings("refresh")


def test_without_its_line_it_is_not_there():
    assert {sensor.name for sensor in loops.build_loops("nowhere", Translator()).sensors} == USUAL
