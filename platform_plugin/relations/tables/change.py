"""DELETE and UPDATE: Spark finds the rows; they are deleted by position, or rewritten with their row ids."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.files.files import write_delete_file
from platform_plugin.lake.read.before_images import ImageDates, has_before_images, read_at
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.read import read_positions
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.places import locate_offset
from platform_plugin.relations.bind.names import new_name, place_errors
from platform_plugin.relations.bind.rows import bind_rows
from platform_plugin.relations.faults import place_spark_errors
from platform_plugin.relations.target import find_changeable, named_fields, refuse_partitioned, statement_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.commit.before_images import BeforeImages
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile, DeleteFile
    from platform_plugin.lake.read.scan import FileScan, TableScan
    from platform_plugin.language.statements.delete import Delete
    from platform_plugin.language.statements.update import Assignment, Update
    from platform_plugin.language.text.places import Span
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.result import Result

_WRITERS = 8
# Where a commit ends more than every third row of the files that it touches, a feed reads these as fast as before-images.
_SPARSE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRows:
    """The rows that a condition selects: positions and row ids by file name, row ids of rows in the catalogue, and all row ids."""

    positions: Mapping[str, Any]
    file_row_ids: Mapping[str, Any]
    inlined: Any
    row_ids: Any


def run_delete(
    work: Workspace, statement: Delete, arguments: Arguments, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """Delete the rows that meet a condition; without one, all files are removed and no row is read."""
    lake = work.lake
    with lake.lease(holder="delete") as lease:
        table = find_changeable(lake, statement.name, lease.snapshot)
        scan = lake.scan(table, lease.snapshot)
        if statement.where is None and not scan.inlined:
            rows = sum(file.record_count - _deleted_count(file) for file in scan.files)
            with lake.commit(f"delete from {table.name}", base=lease.snapshot) as commit:
                commit.remove(table, [file.id for file in scan.files])
            return statement_result(commit.made, f"{count_text(rows, 'row')} deleted from {table.name}", rows=rows)
        found = find_rows(work, statement, lease.snapshot, arguments, timeout=timeout, progress=progress)
        if not len(found.row_ids):
            return statement_result(lease.snapshot, f"no rows deleted from {table.name}", rows=0)
        deletion = write_deletes(work, scan, found, timeout=timeout)
        with discard_on_failure(work, deletion.files), lake.commit(f"delete from {table.name}", base=lease.snapshot) as commit:
            commit_deletes(commit, scan, deletion)
    return statement_result(commit.made, f"{count_text(len(found.row_ids), 'row')} deleted from {table.name}", rows=len(found.row_ids))


def run_update(
    work: Workspace, statement: Update, arguments: Arguments, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """Set columns in the rows that meet a condition. The rows are selected once, then rewritten with their row ids."""
    from platform_plugin.engine.spark.frames.scan import ROWID, arrow_frame
    from platform_plugin.engine.spark.frames.write import run_update_write

    lake = work.lake
    with lake.lease(holder="update") as lease:
        table = find_changeable(lake, statement.name, lease.snapshot)
        refuse_partitioned(table, statement.name)
        for assignment in statement.assignments:
            with _pointing_before(assignment):
                named_fields(table, [assignment.column])
        scan = lake.scan(table, lease.snapshot)
        found = find_rows(work, statement, lease.snapshot, arguments, timeout=timeout, progress=progress)
        if not len(found.row_ids):
            return statement_result(lease.snapshot, f"no rows updated in {table.name}", rows=0)
        chosen = arrow_frame(work.session, pa.table({"\x1fchosen": pa.array(found.row_ids, pa.int64())}))
        target, among = new_name(), new_name()
        pieces = _plan_update(statement, [field.name for field in table.fields], quote_identifier(ROWID), target=target, among=among)
        images = find_image_dates(work, scan, found)
        composed = bind_rows(
            work,
            statement.name,
            statement.alias,
            pieces,
            snapshot=lease.snapshot,
            arguments=arguments,
            parameters=statement.parameters,
            also={among: chosen},
            target=target,
        )
        with place_spark_errors(composed), place_errors(statement.assignments[0].expression):
            files, kept = run_update_write(
                work.session,
                lake,
                table,
                composed.frame,
                changed=[a.column for a in statement.assignments],
                row_count=len(found.row_ids),
                images=images,
                timeout=timeout,
                progress=progress,
            )
        if sum(file.record_count for file in files) != len(found.row_ids):
            lake.discard([*files, *(kept or ())])
            raise InvalidValue(
                f'the update of table "{table.name}" gave another number of rows than it chose', hint="a subquery in SET must give one row"
            )
        with discard_on_failure(work, [*files, *(kept or ())]):
            deletion = write_deletes(work, scan, found, images=kept, timeout=timeout)
        with discard_on_failure(work, [*deletion.files, *files]), lake.commit(f"update {table.name}", base=lease.snapshot) as commit:
            commit_deletes(commit, scan, deletion)
            commit.append(table, files)
    return statement_result(commit.made, f"{count_text(len(found.row_ids), 'row')} updated in {table.name}", rows=len(found.row_ids))


@contextmanager
def _pointing_before(assignment: Assignment) -> Iterator[None]:
    """Errors are about the column that is written before an expression."""
    try:
        yield
    except PlatformError as error:
        source, end = assignment.expression.source, assignment.expression.start
        raise locate_offset(source, max(source.rfind(assignment.column, 0, end), 0)).attach(error) from error


def find_rows(
    work: Workspace,
    statement: Delete | Update,
    snapshot: Snapshot,
    arguments: Arguments,
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> ChosenRows:
    """The places of the rows that meet the condition, in sixteen bytes of memory for each row."""
    from platform_plugin.engine.spark.frames.scan import FILE, POSITION, ROWID

    target = new_name()
    pieces: list[str | Span] = [
        f"SELECT {quote_identifier(FILE)}, {quote_identifier(POSITION)}, {quote_identifier(ROWID)} FROM {target} AS {_called(statement)}"
    ]
    if statement.where is not None:
        pieces += [" WHERE (\n", statement.where, "\n)"]
    composed = bind_rows(
        work,
        statement.name,
        statement.alias,
        pieces,
        snapshot=snapshot,
        arguments=arguments,
        parameters=statement.parameters,
        target=target,
        where=statement.where,
    )
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    ids_of: defaultdict[str, list[Any]] = defaultdict(list)
    inlined: list[Any] = [np.array([], dtype=np.int64)]
    with place_spark_errors(composed), work.session.arrow(composed.frame, timeout=timeout, progress=progress) as stream:
        for batch in stream:
            names = batch.column(0).dictionary_encode() if not pa.types.is_dictionary(batch.column(0).type) else batch.column(0)
            codes = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            positions = batch.column(1).fill_null(-1).to_numpy(zero_copy_only=False)
            ids = batch.column(2).to_numpy(zero_copy_only=False)
            for code, name in enumerate(names.dictionary.to_pylist()):
                parts[name].append(positions[codes == code])
                ids_of[name].append(ids[codes == code])
            inlined.append(ids[codes == -1])
    file_row_ids = {name: np.concatenate(found) for name, found in ids_of.items()}
    return ChosenRows(
        positions={name: np.concatenate(found) for name, found in parts.items()},
        file_row_ids=file_row_ids,
        inlined=np.concatenate(inlined),
        row_ids=np.concatenate([*file_row_ids.values(), *inlined]),
    )


def _called(statement: Delete | Update) -> str:
    """What the table is called in the statement's expressions."""
    return quote_identifier(statement.alias or statement.name.relation)


def _plan_update(statement: Update, columns: list[str], row_id: str, *, target: str, among: str) -> list[str | Span]:
    """The rows as they will be: new values in the statement's order, so that positional parameters keep theirs; then the old."""
    from platform_plugin.engine.spark.frames.write import OLD

    pieces: list[str | Span] = ["SELECT "]
    for place, assignment in enumerate(statement.assignments):
        pieces += ["(\n", assignment.expression, f"\n) AS `\x1fnew_{place}`, "]
    pieces.append(f"{_called(statement)}.* FROM {target} AS {_called(statement)} LEFT SEMI JOIN {among} ON {row_id} = {among}.`\x1fchosen`")
    new = {assignment.column.lower(): place for place, assignment in enumerate(statement.assignments)}
    value = {name: quote_identifier(f"\x1fnew_{new[name.lower()]}" if name.lower() in new else name) for name in columns}
    outer = ", ".join(f"{value[name]} AS {quote_identifier(name)}" for name in columns)
    # What the columns were is at hand here, and nowhere else without reading the rows again.
    old = "".join(f", {quote_identifier(name)} AS {quote_identifier(OLD + name)}" for name in columns if name.lower() in new)
    return [f"SELECT {outer}, {row_id}{old} FROM (", *pieces, ")"]


def _deleted_count(file: FileScan) -> int:
    return (file.deletes.delete_count if file.deletes is not None else 0) + len(file.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDeletion:
    """What was written for a deletion: delete files, the data files that lose all rows, inlined rows, and before-images."""

    deletes: Mapping[int, DeleteFile]
    emptied: Sequence[int]
    inlined: Sequence[int]
    images: Sequence[BeforeImages]

    @property
    def files(self) -> list[DeleteFile | BeforeImages]:
        """The files, to be removed if the commit is refused."""
        return [*self.deletes.values(), *self.images]


def write_deletes(
    work: Workspace,
    scan: TableScan,
    found: ChosenRows,
    *,
    images: Sequence[BeforeImages] | None = None,
    timeout: timedelta | None = None,
) -> WrittenDeletion:
    """Write delete files for data files that lose some rows, and before-images where a statement has not written them already."""
    by_name = _by_name(scan)
    touched = [(by_name[name], positions) for name, positions in found.positions.items() if len(positions)]

    def write(file: FileScan, positions: Any) -> tuple[int, DeleteFile | None]:
        before = (
            read_positions(work.lake, file.deletes, scan.snapshot, limit=file.record_count)
            if file.deletes is not None
            else np.array([], dtype=np.int64)
        )
        every = np.union1d(positions, before)
        if len(np.union1d(every, np.asarray(file.positions, dtype=np.int64))) == file.record_count:
            return file.id, None
        return file.id, write_delete_file(work.lake.storage, scan.table, file.path, pa.array(every))

    with ThreadPoolExecutor(max_workers=_WRITERS) as pool:
        results = list(pool.map(lambda pair: write(*pair), touched))
    deletes = {file_id: file for file_id, file in results if file is not None}
    emptied = [file_id for file_id, file in results if file is None]
    with discard_on_failure(work, deletes.values()):
        if images is None and wants_before_images(scan, found):
            images = _write_before_images(work, scan, found, deletes, emptied, timeout=timeout)
    return WrittenDeletion(
        deletes=deletes,
        emptied=emptied,
        inlined=found.inlined.tolist(),
        images=images or (),
    )


def _write_before_images(
    work: Workspace,
    scan: TableScan,
    found: ChosenRows,
    deletes: Mapping[int, DeleteFile],
    emptied: Sequence[int],
    *,
    timeout: timedelta | None,
) -> list[BeforeImages]:
    """Write the rows that end, in this process or, where they are many, by Spark's tasks."""
    by_name = _by_name(scan)
    places = {by_name[name].id: positions for name, positions in found.positions.items() if len(positions)}
    if not _are_many(work, found):
        return work.lake.write_before_images(scan, places, inlined=found.inlined)
    from platform_plugin.engine.spark.frames.before_images import write_ended_rows
    from platform_plugin.engine.spark.frames.write import is_written_by_spark

    if not is_written_by_spark(scan.table):
        return []
    # What Spark can't read is small: rows in the catalogue, and files of other programs, which have a limit in bytes.
    foreign = {file.id for file in scan.files if file.mapping_id is not None}
    written = work.lake.write_before_images(
        scan, {number: positions for number, positions in places.items() if number in foreign}, inlined=found.inlined
    )
    with discard_on_failure(work, written):
        ours = {number: file for number, file in deletes.items() if number not in foreign}
        rest = [number for number in emptied if number not in foreign]
        return [*written, *write_ended_rows(work.session, work.lake, scan, ours, rest, timeout=timeout)]


def _are_many(work: Workspace, found: ChosenRows) -> bool:
    return len(found.row_ids) > work.limits.before_image_rows


def wants_before_images(scan: TableScan, found: ChosenRows) -> bool:
    """Whether it is worth while to write rows that end as before-images; if they are most rows of their files, these say as much."""
    if not has_before_images(scan.table):
        return False
    by_name = _by_name(scan)
    around = sum(by_name[name].record_count for name, positions in found.positions.items() if len(positions))
    return around >= _SPARSE * len(found.row_ids)


def find_image_dates(work: Workspace, scan: TableScan, found: ChosenRows) -> ImageDates | None:
    """For each row that an UPDATE changes the snapshot that added it; None if the client is to write no before-images."""
    if _are_many(work, found) or not wants_before_images(scan, found):
        return None
    by_name = _by_name(scan)
    ids, dates = [], []
    for name, positions in found.positions.items():
        file = by_name[name]
        ids.append(found.file_row_ids[name])
        if file.partial_max is None:
            dates.append(np.full(len(positions), file.begin_snapshot, dtype=np.int64))
        else:
            order = np.argsort(positions, kind="stable")
            added = np.empty(len(positions), dtype=np.int64)
            added[order] = read_at(work.lake, file, scan.snapshot, (), positions[order]).added
            dates.append(added)
    if len(found.inlined):
        with work.lake.reading() as connection:
            for part in scan.inlined:
                _, row_ids, added_in = read_inlined(connection, part, scan.table, scan.snapshot, fields=())
                ids.append(np.array(row_ids, dtype=np.int64))
                dates.append(np.array(added_in, dtype=np.int64))
    return ImageDates.of(np.concatenate(ids), np.concatenate(dates))


def _by_name(scan: TableScan) -> dict[str, FileScan]:
    return {file.path.rsplit("/", 1)[-1]: file for file in scan.files}


def commit_deletes(commit: Commit, scan: TableScan, deletion: WrittenDeletion) -> None:
    """Delete the selected rows in a commit."""
    if deletion.deletes:
        commit.delete(scan.table, deletion.deletes)
    if deletion.emptied:
        commit.replace(scan.table, deletion.emptied, [])
    if deletion.inlined:
        commit.delete_inlined(scan.table, deletion.inlined)
    commit.keep_before_images(scan.table, deletion.images)


class discard_on_failure:  # noqa: N801  reads as a statement
    """Removes the files of a commit that is refused."""

    def __init__(self, work: Workspace, files: Any) -> None:
        self.work = work
        self.files: list[DataFile | DeleteFile | BeforeImages] = list(files)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PlatformError):
            self.work.lake.discard(self.files)
