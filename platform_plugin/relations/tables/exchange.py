"""`run_exchange`: replaces the rows of a table in a range of one column by those of a query, in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from platform_plugin.language.script import parse_statement
from platform_plugin.language.text.writing import identifier
from platform_plugin.relations.bind.query import bind_query
from platform_plugin.relations.faults import place_spark_errors
from platform_plugin.relations.tables.change import commit_deletes, discard_on_failure, find_rows, write_deletes
from platform_plugin.relations.target import statement_result

if TYPE_CHECKING:
    from datetime import date

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.language.statements.delete import Delete
    from platform_plugin.relations.result import Result


def run_exchange(
    work: Workspace, name: Name, query: str, *, column: str, first: date | int, last: date | int, progress: ProgressHandler | None = None
) -> Result:
    """Replace the table's rows from `first` up to but not including `last`, days or numbers, by the query's rows in that range.

    Repeating it changes nothing. Readers see either the old rows or the new ones. If another writer changes the same rows, it is a
    conflict, and nothing is changed.
    """
    from platform_plugin.engine.spark.frames.write import run_write, shape_frame

    least, end = (str(each) if isinstance(each, int) else f"DATE '{each}'" for each in (first, last))
    where = f"{identifier(column)} >= {least} AND {identifier(column)} < {end}"
    full = f"{identifier(name.schema)}.{identifier(name.relation)}"
    with work.lake.lease(holder="exchange") as lease:
        table = work.lake.table(name, lease.snapshot)
        scan = work.lake.scan(table, lease.snapshot)
        found = find_rows(
            work, cast("Delete", parse_statement(f"DELETE FROM {full} WHERE {where}")), lease.snapshot, (), timeout=None, progress=progress
        )
        bound = bind_query(work, f"SELECT * FROM (\n{query}\n) WHERE {where}", lease.snapshot)
        with place_spark_errors(bound.rendered), work.session.job():
            frame = shape_frame(bound.frame, table.fields, [field.name for field in table.fields])
        with place_spark_errors(bound.rendered):
            files, metrics = run_write(work.session, work.lake, table, frame, progress=progress)
        with discard_on_failure(work, files):
            deletion = write_deletes(work, scan, found)
        with (
            discard_on_failure(work, [*deletion.files, *files]),
            work.lake.commit(f"exchange a part of {name}", base=lease.snapshot) as commit,
        ):
            commit_deletes(commit, scan, deletion)
            commit.append(table, files)
    rows = sum(file.record_count for file in files)
    return statement_result(commit.made, f"{rows} rows are in the place of {len(found.row_ids)} in {name}", rows=rows, metrics=metrics)
