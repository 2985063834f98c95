from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.engine.spark.server import settings as module
from platform_plugin.engine.spark.server.settings import ServerSettings, available_cores, available_memory, plan_java_options, plan_options
from platform_plugin.errors import InvalidValue


def test_options_of_the_user_win() -> None:
    options = plan_options(ServerSettings(options={"spark.sql.ansi.enabled": "false", "spark.x": "1"}), Path("/run/p"))
    assert options["spark.sql.ansi.enabled"] == "false"
    assert options["spark.x"] == "1"


def test_a_local_server_listens_on_loopback_only() -> None:
    options = plan_options(ServerSettings(cores=3), Path("/run/p"))
    addresses = {options[key] for key in ("spark.connect.grpc.binding.address", "spark.driver.host", "spark.driver.bindAddress")}
    assert addresses == {"127.0.0.1"}
    assert options["spark.ui.enabled"] == "false"
    assert (options["spark.master"], options["spark.sql.shuffle.partitions"]) == ("local[3]", "3")


def test_a_submitted_server_leaves_the_cluster_to_itself() -> None:
    options = plan_options(ServerSettings(), Path("/run/p"), submitted=True)
    assert not {"spark.master", "spark.driver.host", "spark.local.dir"} & set(options)


def test_every_folder_is_inside_the_runtime_folder() -> None:
    options = plan_options(ServerSettings(), Path("/run/p"))
    assert all("/run/p/" in options[key] for key in ("spark.local.dir", "spark.jars.ivy", "spark.sql.warehouse.dir"))
    assert any("derby" in flag and "/run/p/" in flag for flag in plan_java_options(ServerSettings(), Path("/run/p")))


@given(st.integers(0, 1 << 45))
def test_memory_follows_the_machine_within_bounds(total: int) -> None:
    original = module.available_memory
    module.available_memory = lambda: total
    try:
        assert 1024 <= ServerSettings().memory_mib <= 16 * 1024
        assert ServerSettings(driver_memory_mib=7).memory_mib == 7
    finally:
        module.available_memory = original


def test_control_group_limits_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"/sys/fs/cgroup/cpu.max": ["100000", "100000"], "/sys/fs/cgroup/memory.max": [str(1 << 29)]}
    monkeypatch.setattr(module, "_read_words", lambda path: words.get(path, []))
    assert available_cores() == 1
    assert available_memory() == 1 << 29
    words.update({"/sys/fs/cgroup/cpu.max": ["max", "100000"], "/sys/fs/cgroup/memory.max": ["max"]})
    assert available_cores() >= 1
    assert available_memory() > 1 << 29


@pytest.mark.parametrize("wrong", [{"cores": -1}, {"idle_seconds": -0.5}, {"port": 70000}, {"driver_memory_mib": -5}])
def test_impossible_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidValue, match=f'"{next(iter(wrong))}"'):
        ServerSettings(**wrong)
