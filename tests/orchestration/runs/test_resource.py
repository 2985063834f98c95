import dagster as dg
import pytest

from platform_plugin.errors import CatalogueError, InvalidValue
from platform_plugin.orchestration import PlatformResource


def test_the_platform_is_open_only_inside(tmp_path):
    resource = PlatformResource(url=str(tmp_path / "lake"), create=True)
    with pytest.raises(RuntimeError, match="only inside a run"):
        _ = resource.platform
    with resource.opened("run-1"):
        assert resource.execute("SHOW TABLES").row_count == 0
    with pytest.raises(RuntimeError):
        resource.execute("SHOW TABLES")


def test_a_lake_is_founded_only_when_asked_and_a_damaged_one_never(tmp_path):
    with PlatformResource(url=str(tmp_path / "lake")).opened("r") as resource, pytest.raises(CatalogueError, match="there is no lake at"):
        resource.execute("SHOW TABLES")
    assert not (tmp_path / "lake").exists()
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "lake.sqlite").write_bytes(b"")
    with PlatformResource(url=str(tmp_path / "lake"), create=True).opened("r") as resource, pytest.raises(CatalogueError):
        resource.execute("SHOW TABLES")


def test_a_run_gets_a_platform_of_its_own_and_closes_it(tmp_path):
    seen = []

    @dg.asset
    def made(platform: PlatformResource) -> None:
        platform.execute("CREATE TABLE users (id INT)")
        seen.append(platform)

    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"platform": PlatformResource(url=str(tmp_path / "lake"), create=True)}
        assert dg.materialize([made], resources=resources, instance=instance).success
    assert seen[0]._platform is None


@pytest.mark.spark
def test_spark_jobs_carry_the_run(tmp_path, spark_server):
    with PlatformResource(url=str(tmp_path / "lake"), create=True).opened("run-17") as resource:
        assert resource.execute("SELECT 1 AS one").arrow().to_pydict() == {"one": [1]}
        assert "run-17" in resource.platform.work.session.spark.getTags()


def test_the_engine_of_the_resource_is_that_of_its_runs(tmp_path):
    with PlatformResource(url=str(tmp_path / "lake"), create=True, engine="local").opened("r") as resource:
        assert resource.platform.work.engine == "local"
    with PlatformResource(url=f"platform+local://{tmp_path}/lake?engine=executors").opened("r") as resource:
        assert resource.platform.work.engine == "executors"
    with PlatformResource(url=str(tmp_path / "lake"), engine="flink").opened("r") as resource, pytest.raises(InvalidValue):
        _ = resource.platform
