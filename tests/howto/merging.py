"""Merging: when small files of tables should become large ones, and the sensor that asks for it. It exists in tests only."""

# Dagster compares the annotation of an op's context with its own classes, so annotations must not be text in this module.

import dagster as dg

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.upkeep.merge import merge
from platform_plugin.lake.upkeep.merge_groups import find_groups
from platform_plugin.orchestration.sensors.firing import Ask, Decision, Moment, build_sensor
from platform_plugin.orchestration.sensors.loops import SensorKind, SensorSetting

JOB, POOL = "merge_files", "merging"
TARGET_BYTES = 128 * 1024 * 1024
MOST_FILES = 3


def plan_merge(files: dict[Name, int], snapshot_id: int) -> Decision:
    """A run for the tables with so many small files that reads gain from a merge."""
    due = tuple(name for name, count in files.items() if count > MOST_FILES)
    if not due:
        return Decision(reason=f"no table has more than {MOST_FILES} small files")
    ask = Ask(
        job=JOB,
        pool=POOL,
        first=snapshot_id,
        last=snapshot_id,
        relations=due,
        reason=f"{files[due[0]]} small files",
        config={"ops": {f"{JOB}_step": {"config": {"tables": [str(name) for name in due]}}}},
    )
    return Decision(asks=(ask,))


def read_files(moment: Moment) -> dict[Name, int]:
    """How many files of each table a merge would replace, from the catalogue."""
    tables = moment.lake.tables(moment.snapshot)
    with moment.lake.reading() as connection:
        groups = {table.name: find_groups(connection, table, moment.snapshot, target_bytes=TARGET_BYTES) for table in tables}
    return {name: sum(len(group.files) for group in found) for name, found in groups.items()}


def build_merging(setting: SensorSetting) -> dg.Definitions:
    """The sensor and its job."""

    @dg.op(name=f"{JOB}_step", config_schema={"tables": [str]})
    def step(context: dg.OpExecutionContext) -> None:
        with Lake.open(setting.url) as lake:
            for name in context.op_config["tables"]:
                merge(lake, lake.table(tuple(name.split("."))), target_bytes=TARGET_BYTES)

    @dg.job(name=JOB, executor_def=dg.in_process_executor)
    def job() -> None:
        step()

    sensor = build_sensor(
        "file_merge",
        setting.url,
        lambda moment: plan_merge(read_files(moment), moment.snapshot.id),
        description=f"Merges the files of tables with more than {MOST_FILES} small ones.",
        jobs=[job],
        interval_seconds=60,
        running=setting.running,
    )
    return dg.Definitions(sensors=[sensor], jobs=[job])


MERGING = SensorKind("merge", build_merging)
