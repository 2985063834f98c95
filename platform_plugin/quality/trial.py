"""`run_trials`: runs each case on a lake of its own, which holds only what the view reads and is deleted afterwards."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import InvalidValue, PlatformError, UnknownObject, combine_errors, in_file
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.script import parse_statement
from platform_plugin.language.statements.create_stream import CreateStream
from platform_plugin.language.statements.create_table import CreateTable
from platform_plugin.language.statements.create_view import CreateView
from platform_plugin.language.statements.registry import statement_text
from platform_plugin.language.text.places import suggest_word
from platform_plugin.language.text.writing import identifier, name_text
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.quality.cases import find_cases
from platform_plugin.quality.difference import find_difference
from platform_plugin.relations.bind.names import lake_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from platform_plugin.engine.spark.server.liveness import Watcher
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.quality.cases import Case, Epoch, Place, Row

    Definition = CreateTable | CreateStream | CreateView


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """The outcome of a case: `difference` is None if the view answered as expected."""

    case: Case
    difference: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the view answered as expected."""
        return self.difference is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDefinition:
    """The definition in a file; `file` is the path inside the folder, with `/`."""

    file: str
    statement: Definition


def run_trials(folder: Path, cases: Sequence[Case], *, watcher: Watcher | None = None) -> Iterator[TrialOutcome]:
    """Run cases one after the other, over the definitions of a folder; `watcher` is called with the progress of a server that starts."""
    definitions = read_definitions(folder) if cases else {}
    for case in cases:
        try:
            yield TrialOutcome(case=case, difference=_run(case, folder, definitions, watcher))
        except PlatformError as error:
            yield TrialOutcome(case=case, difference="\n".join(f"  {line}" for line in str(error).splitlines()))


def read_folder(folder: Path) -> tuple[Case, ...]:
    """The cases of a folder; what is wrong with its cases and with its SQL files is raised as one error."""
    cases: tuple[Case, ...] = ()
    errors: list[PlatformError] = []
    try:
        cases = find_cases(folder)
    except PlatformError as error:
        errors.append(error)
    try:
        # Without a case nothing is run, so that nothing has to be right.
        if cases or errors:
            read_definitions(folder)
    except PlatformError as error:
        errors.append(error)
    failure = combine_errors(errors)
    if failure is not None:
        raise failure
    return cases


def read_definitions(folder: Path) -> dict[str, FileDefinition]:
    """The relations that the files of a folder define, by full name."""
    found: dict[str, FileDefinition] = {}
    errors: list[PlatformError] = []
    for path in sorted(folder.rglob("*.sql")):
        file = path.relative_to(folder).as_posix()
        try:
            statement = parse_statement(path.read_text(encoding="utf-8-sig"))
        except PlatformError as error:
            errors.append(in_file(error, file))
            continue
        if isinstance(statement, CreateTable | CreateStream | CreateView):
            found[str(lake_name(statement.name)).lower()] = FileDefinition(file=file, statement=statement)
    failure = combine_errors(errors)
    if failure is not None:
        raise failure
    return found


def _run(case: Case, folder: Path, definitions: Mapping[str, FileDefinition], watcher: Watcher | None) -> str | None:
    view = parse_statement(case.sql_file.read_text(encoding="utf-8-sig"))
    if not isinstance(view, CreateView):
        raise InvalidValue(f'file "{case.sql_file.name}" defines no view', hint="cases are for views")
    needed = list(_needed(view, definitions, ()))
    names = {str(lake_name(each.statement.name)).removeprefix("main."): each.statement for each in needed}
    for epoch in case.epochs:
        for relation in sorted(set(epoch.given) - set(names)):
            what = f'rows are given for "{relation}", which the view does not read'
            raise case.unknown((*epoch.given_at, relation), what, relation, names)
    tested = FileDefinition(file=Path(os.path.relpath(case.sql_file, folder)).as_posix(), statement=view)
    with (
        tempfile.TemporaryDirectory(prefix="platform-case-") as place,
        Platform.create(Path(place) / "lake", watcher=watcher) as platform,
    ):
        for definition in (*needed, tested):
            _define(platform, definition)
        for number, epoch in enumerate(case.epochs, 1):
            for relation, rows in epoch.given.items():
                if not isinstance(names[relation], CreateView):
                    known = [field.name for field in platform.lake.table(lake_name(names[relation].name)).fields]
                    _check_columns(case, (*epoch.given_at, relation), rows, f'"{relation}"', known, fold=str.lower)
                _insert(platform, names[relation].name, rows)
            # Before and after a run has taken the rows up: a view that answers differently is maintained wrongly.
            for moment in ("", ", once maintained"):
                difference = None if epoch.expect is None else _compare(platform, view.name, case, epoch)
                if difference is not None:
                    return f"  epoch {number}{moment}\n{difference}"
                for error in run_maintenance(platform.work).failed.values():
                    raise error
    return None


def _define(platform: Platform, definition: FileDefinition) -> None:
    """Create what a file defines; an error with a line names the file and has the line in it."""
    statement = definition.statement
    # The whole text of the file, where it can stay: lines are counted from its beginning, comments at its head included.
    has_feed = isinstance(statement, CreateStream) and statement.feed is not None
    text = _standing_alone(statement) if has_feed else statement.span.source
    try:
        platform.execute(text)
    except PlatformError as error:
        if hasattr(error, "line"):
            raise in_file(error, definition.file) from None
        raise


def _needed(statement: Definition, definitions: Mapping[str, FileDefinition], within: tuple[str, ...]) -> Iterator[FileDefinition]:
    """What a definition reads, and what that reads, each before what needs it."""
    query = None if isinstance(statement, CreateStream) else statement.query
    seen: set[str] = set()
    for reference in analyse_query(query).relations if query is not None else ():
        name = str(lake_name(reference.name)).lower()
        if name in seen or name in within:
            continue
        seen.add(name)
        if name not in definitions:
            raise UnknownObject(
                f'relation "{lake_name(reference.name)}" is defined by no file',
                hint=suggest_word(name, definitions) or "add the file that creates it",
            )
        for found in _needed(definitions[name].statement, definitions, (*within, name)):
            found_name = str(lake_name(found.statement.name)).lower()
            if found_name not in seen:
                seen.add(found_name)
                yield found
        yield definitions[name]


def _standing_alone(statement: Definition) -> str:
    """The definition without what would bring rows: those come from the case."""
    if isinstance(statement, CreateStream) and statement.feed is not None:
        if not statement.columns:
            raise InvalidValue(f'stream "{statement.name}" takes its columns from its source', hint="name its columns in its file")
        statement = replace(statement, feed=None)
    return statement_text(statement)


def _insert(platform: Platform, name: WrittenName, rows: Sequence[Row]) -> None:
    columns = list(dict.fromkeys(str(column) for row in rows for column in row))
    if not rows:
        return
    marks = ", ".join("(" + ", ".join("?" for _ in columns) + ")" for _ in rows)
    listed = ", ".join(identifier(column) for column in columns)
    values: list[Any] = [_exact(row.get(column)) for row in rows for column in columns]
    platform.execute(f"INSERT INTO {name_text(name)} ({listed}) VALUES {marks}", values)


def _exact(value: Any) -> Any:
    """A fraction as it is written, for columns of decimals."""
    return Decimal(repr(value)) if isinstance(value, float) and math.isfinite(value) else value


def _check_columns(
    case: Case, place: Place, rows: Sequence[Row], relation: str, known: Sequence[str], *, fold: Callable[[str], str] = str
) -> None:
    """Refuse a row with a column that a relation has not."""
    names = set(map(fold, known))
    for number, row in enumerate(rows):
        unknown = next((str(column) for column in row if fold(str(column)) not in names), None)
        if unknown is not None:
            raise case.unknown((*place, number, unknown), f'{relation} has no column "{unknown}"', unknown, known)


def _compare(platform: Platform, name: WrittenName, case: Case, epoch: Epoch) -> str | None:
    expected = epoch.expect or ()
    with platform.execute(f"SELECT * FROM {name_text(name)}") as result:
        _check_columns(case, epoch.expect_at, expected, f'view "{name}"', result.columns)
        found = [dict(zip(result.columns, row, strict=True)) for row in result]
    return find_difference(expected, found)
