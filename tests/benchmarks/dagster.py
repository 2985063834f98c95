"""Dagster with many views: how long a code location loads, a tick takes, and what a cycle costs for each view. No Spark.

Sizes come from the environment: VIEWS (1 000), STREAMS (200).
"""

from __future__ import annotations

import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import dagster as dg
import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.lake.catalogue.relations import RELATION, STATE, Declaration, declare_relation
from platform_plugin.lake.ring.segments import RING_TABLES, SEGMENT
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.orchestration import PlatformResource, SqlFolder
from platform_plugin.orchestration.components.apply import find_changed
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.orchestration.runs import work
from platform_plugin.orchestration.runs.jobs import op_name
from platform_plugin.orchestration.runs.upkeep import UpkeepResult, UpkeepRun
from platform_plugin.orchestration.sensors.refreshing import SENSOR_NAME
from platform_plugin.platform import Platform
from platform_plugin.relations.views.follow.advance import AttachNode
from platform_plugin.relations.views.record import FROM, RESULT_PART, VIEW_TABLES, ViewRecord, note_view, shown_columns
from platform_plugin.state.node import Node
from tests.benchmarks.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VIEWS = int(os.environ.get("VIEWS", "1000"))
STREAMS = int(os.environ.get("STREAMS", "200"))
_STATE = tuple(Field(name=name, type=parse_type(kind)) for name, kind in (("uid", "INT"), ("sum_score", "BIGINT"), ("n", "BIGINT")))
_RESULT = tuple(Field(name=name, type=parse_type(kind)) for name, kind in (("uid", "INT"), ("score", "DOUBLE")))


def run() -> None:
    """Measure a folder of that many files beside a lake that holds them."""
    report = Report("dagster")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_files(folder / "sql")
        url = str(folder / "lake")
        _fill_lake(url)
        context: Any = SimpleNamespace(path=folder, project_root=folder)

        def load() -> dg.Definitions:
            found = SqlFolder(path="sql", url=url).build_defs(context)
            merged = dg.Definitions.merge(found, dg.Definitions(resources={"platform": PlatformResource(url=url)}))
            merged.get_repository_def()
            return merged

        definitions, first = _measured(load)
        report.add(what=f"load {VIEWS} views, {STREAMS} streams for the first time", **first)
        definitions, again = _measured(load)
        report.add(what="load them again", **again)
        repository = definitions.get_repository_def()
        with tempfile.TemporaryDirectory() as home, dg.DagsterInstance.local_temp(home) as instance:

            def tick(name: str, cursor: str | None = None) -> Any:
                asked = dg.build_sensor_context(instance=instance, repository_def=repository, cursor=cursor)
                return repository.get_sensor_def(name).evaluate_tick(asked)

            told, cost = _measured(lambda: tick(SENSOR_NAME))
            report.add(what="tick of split_refresh, all behind", **cost)
            (request,) = told.run_requests
            chosen = request.run_config["ops"][op_name(request.job_name)]["config"]["assets"]
            assert len(chosen) == VIEWS
            told, cost = _measured(lambda: tick("stream_arrivals"))
            report.add(what="tick of stream_arrivals, all new", **cost)
            report.add(what="tick of stream_arrivals, nothing new", **_measured(lambda: tick("stream_arrivals", told.cursor))[1])
            report.add(what="tick of bounded_ingestion", **_measured(lambda: tick("bounded_ingestion"))[1])
            models = read_models(folder / "sql")
            with Platform.open(url) as platform:
                changed, cost = _measured(lambda: find_changed(platform, [model for model in models if model.kind == "view"]))
            assert not changed
            report.add(what=f"find the views that are not as their files say, of {VIEWS}", **cost)
            job = definitions.resolve_job_def(request.job_name)
            for count in (VIEWS // 10, VIEWS):
                config = {"ops": {op_name(request.job_name): {"config": {"assets": chosen[:count]}}}}
                with mock.patch.object(work, "run_upkeep", _nothing_done):
                    done, cost = _measured(partial(job.execute_in_process, instance=instance, run_config=config))
                told = instance.all_logs(done.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
                assert len(told) == count
                report.add(
                    what=f"a run for {count} views, without their maintenance", **cost, cpu_ms_per_view=cost["cpu_seconds"] / count * 1000
                )
    report.finish()


def _measured(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What some work gives and takes: by the clock, which others share, and by the processor, which counts."""
    began, worked = time.perf_counter(), time.process_time()
    found = work()
    return found, {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked}


def _write_files(folder: Path) -> None:
    folder.mkdir()
    for number in range(STREAMS):
        text = f"CREATE STREAM stream_{number} (uid INT, score INT) WITH (retention_rows = 1000000)"
        (folder / f"stream_{number}.sql").write_text(text)
    for number in range(VIEWS):
        (folder / f"view_{number}.sql").write_text(f"CREATE VIEW view_{number} AS\n{_query(number)}")


def _query(number: int) -> str:
    return f"SELECT uid, avg(score) AS score FROM stream_{number % STREAMS} WHERE score > {number} GROUP BY uid"


def _fill_lake(url: str) -> None:
    """The relations as CREATE VIEW would note them, without asking Spark for their types; and rows that wait for all of them."""
    with Platform.create(url) as platform:
        lake = platform.lake
        for number in range(STREAMS):
            platform.execute(f"CREATE STREAM stream_{number} (uid INT, score INT) WITH (retention_rows = 1000000)")
        lake.prepare_tables([RELATION, *RING_TABLES, *VIEW_TABLES])
        streams = [lake.table(f"stream_{number}") for number in range(STREAMS)]
        for first in range(0, VIEWS, 100):
            with lake.commit("create views") as commit:
                for number in range(first, min(first + 100, VIEWS)):
                    stream = streams[number % STREAMS]
                    uuid = commit.create_view(f"view_{number}", _query(number))
                    parts = {
                        part: commit.create_table(("main", f"view_{number}__{part}"), fields)
                        for part, fields in (("state_1", _STATE), (RESULT_PART, _RESULT))
                    }
                    for table in parts.values():
                        declare_relation(commit, table, Declaration(kind=STATE, options={"view": str(uuid)}))
                    commit.also(AttachNode(parts["state_1"].uuid, stream, 0))
                    options = {RESULT_PART: shown_columns(_RESULT), FROM: {str(stream.uuid): 0}}
                    tables = {part: table.uuid for part, table in parts.items()}
                    nodes = [Node(uuid=table.uuid, kind=part.partition("_")[0]) for part, table in parts.items()]
                    note_view(commit, ViewRecord(uuid=uuid, query=_query(number), options=options, parts=tables), nodes)
        rows = pa.table({"uid": pa.array(range(1000), pa.int32()), "score": pa.array(range(1000), pa.int32())})
        with lake.commit("rows") as commit:
            for stream in streams:
                commit.append(stream, [lake.write(stream, rows)])
        # They have waited for longer than anybody's target lag.
        with lake.writing() as connection:
            connection.execute(sa.update(SEGMENT).values(arrived_at=datetime.now(UTC) - timedelta(hours=1)))


def _nothing_done(platform: Platform, names: Sequence[Any], models: Sequence[Any], *, progress: Any = None) -> UpkeepRun:
    snapshot = platform.lake.snapshot()
    kept = tuple(UpkeepResult(name=name, action="unchanged", taken_up=snapshot.id, rows_in=1000, columns=_RESULT) for name in names)
    return UpkeepRun(snapshot=snapshot, kept=kept)
