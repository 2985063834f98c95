"""The private modules and attributes of Dagster that the package uses, each as one function, in this module only.

A new version of Dagster may change any of them without notice; the tests of this module then show which.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.events import StepMaterializationData
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log import SqlEventLogStorage, SqlEventLogStorageTable

if TYPE_CHECKING:
    from collections.abc import Sequence

AssetJob = UnresolvedAssetJobDefinition
"""The type that `dg.define_asset_job` returns: a job whose assets are not known yet."""


def has_event_tables(instance: dg.DagsterInstance) -> bool:
    """Whether an instance stores its events in tables, so that `store_entries` can write them."""
    return isinstance(instance.event_log_storage, SqlEventLogStorage)


def step_entry(context: dg.OpExecutionContext, event: dg.AssetMaterialization) -> dg.EventLogEntry:
    """The entry that an op's `log_event` would write for a materialization."""
    step = context.get_step_execution_context()
    return _entry(
        event,
        run_id=context.run.run_id,
        job_name=step.job_name,
        step_handle=step.step.handle,
        node_handle=step.step.node_handle,
        step_kind_value=step.step.kind.value,
        logging_tags=step.event_tags,
        pid=os.getpid(),
    )


def runless_entry(event: dg.AssetMaterialization) -> dg.EventLogEntry:
    """The entry that `report_runless_asset_event` would write for a materialization."""
    return _entry(event, run_id=RUNLESS_RUN_ID, job_name=RUNLESS_JOB_NAME)


def store_entries(instance: dg.DagsterInstance, entries: Sequence[dg.EventLogEntry]) -> None:
    """Write entries of one run in two transactions, or one where all runs share a database."""
    storage: Any = instance.event_log_storage
    rows = storage.prepare_insert_event_batch(entries)
    if storage.is_run_sharded:
        # The file of the run, beside the one that all runs are looked up in.
        with storage.run_connection(entries[0].run_id) as connection:
            connection.execute(rows)
    # A transaction of its own: whoever follows the ids must not pass by some that are not visible yet.
    with storage.index_connection() as connection:
        ids = sorted(connection.execute(rows.returning(SqlEventLogStorageTable.c.id)).scalars())
    with storage.index_transaction() as connection:
        storage._store_asset_event_tags(connection, entries, ids)  # noqa: SLF001  this module is for that
        for entry, number in zip(entries, ids, strict=True):
            storage._store_asset_event(connection, entry, number)  # noqa: SLF001  as above


def read_failed_checks(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]) -> list[dg.AssetCheckEvaluation]:
    """The last evaluations of those checks that failed in their last run."""
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks) if checks else {}
    records = [record for check in checks if (record := found.get(check)) is not None]
    failed = [each for each in records if each.status is AssetCheckExecutionRecordStatus.FAILED and each.run_id != RUNLESS_RUN_ID]
    return [record.evaluation for record in failed if record.evaluation is not None]


def _entry(event: dg.AssetMaterialization, *, run_id: str, job_name: str, **step: Any) -> dg.EventLogEntry:
    told = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
        event_specific_data=StepMaterializationData(event),
        message=event.description or f"Materialized value {event.label}.",
        job_name=job_name,
        **step,
    )
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]
        error_info=None,
        level=logging.DEBUG,
        user_message="",
        run_id=run_id,
        timestamp=time.time(),
        step_key=told.step_key,
        job_name=job_name,
        dagster_event=told,
    )
