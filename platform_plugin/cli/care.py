"""The commands about a lake: `init`, `status`, `tables`, `snapshots`, `expire`, `merge`, `vacuum`, `upgrade`, `check`."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from platform_plugin.cache import BUDGET_VARIABLE, read_limit
from platform_plugin.cli.output.amounts import byte_text, seconds_text
from platform_plugin.cli.output.machine import print_document
from platform_plugin.cli.output.progress import ProgressLine
from platform_plugin.cli.output.tabular import print_table
from platform_plugin.cli.reach import check_reach
from platform_plugin.errors import InvalidValue, NoLake
from platform_plugin.language.text.counting import count_text
from platform_plugin.state.cache_folder import list_copies, locate_cache

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.lake.upkeep.vacuum import VacuumOutcome
    from platform_plugin.select.overview import Overview

URL_VARIABLE = "PLATFORM_URL"
_MOST_ENGINES = 8


def lake_url(given: argparse.Namespace) -> str:
    """The URL of the command's lake, from its option or from the environment."""
    import os

    url = given.url or os.environ.get(URL_VARIABLE)
    if not url:
        raise InvalidValue("no lake is named", hint=_hint_at_url())
    return str(url)


def _hint_at_url() -> str:
    from platform_plugin.lake.catalogue.nearby import find_nearby_lake

    near = find_nearby_lake(Path.cwd())
    if near is not None:
        return f"there is one here: export {URL_VARIABLE}=platform+local://{near}"
    return f"give --url platform+local:///path/to/lake, or set it for good: export {URL_VARIABLE}=…"


def _is_in_project(url: str) -> bool:
    """Whether a URL names the lake of a project, which `platform new` has written, by its place in it."""
    folder = Path(url.removeprefix("platform+local://"))
    return folder.parts[-2:] == (".platform", "lake") and (folder.parent.parent / "pyproject.toml").is_file()


def run_init(given: argparse.Namespace) -> int:
    """Create a lake, or adopt one."""
    given.url = given.place or given.url
    url = lake_url(given)
    from platform_plugin.lake.lake import Lake

    with (Lake.adopt if given.adopt else Lake.create)(url) as lake:
        snapshot = lake.snapshot()
        if given.json:
            print_document({"lake": str(lake.location), "uuid": lake.uuid, "data": lake.storage.root, "snapshot": snapshot.id})
            return 0
        print(f"lake {'adopted' if given.adopt else 'created'}: {lake.location}, snapshot {snapshot.id}")
        if lake.location.is_local:
            print(
                f"next: export {URL_VARIABLE}={lake.location}\n      platform sql -c 'CREATE TABLE users (id INT PRIMARY KEY, name STRING)'"
            )
    return 0


def run_status(given: argparse.Namespace) -> int:
    """Print the state of the lake and the server. Reads the catalogue and asks the server; starts nothing."""
    if given.watch is None:
        return _show_status(given)
    try:
        while True:
            # Home and clear what is below: the picture stays where it is, and nothing flickers.
            if sys.stdout.isatty():
                sys.stdout.write("\x1b[H\x1b[J")
            code = _show_status(given)
            sys.stdout.flush()
            if code:
                return code
            time.sleep(given.watch.total_seconds())
    except KeyboardInterrupt:
        return 0


def _print_relations(overview: Overview, now: datetime) -> None:
    """The relations of a lake as a table, without the columns that nothing in it has."""
    if overview.relations:
        print()
        columns: tuple[str, ...] = ("schema", "name", "kind", "rows", "files", "size", "rows/s", "last arrival", "rows waiting", "lag")
        rows: list[tuple[Any, ...]] = [
            (
                r.schema,
                r.name,
                r.kind,
                "" if r.rows is None else f"{r.rows:,}",
                "" if r.files is None else r.files,
                "" if r.bytes is None else byte_text(r.bytes),
                "" if r.rows_per_second is None else f"{r.rows_per_second:,.1f}",
                "" if r.last_arrival is None else f"{seconds_text(max(0.0, (now - r.last_arrival).total_seconds()))} ago",
                "" if r.rows_waiting is None else f"{r.rows_waiting:,}",
                "" if (lag := r.lag_seconds(now)) is None else seconds_text(lag),
            )
            for r in overview.relations
        ]
        if not any(r.rows_waiting is not None for r in overview.relations):
            columns, rows = columns[:8], [row[:8] for row in rows]
        if not any(r.kind == "stream" for r in overview.relations):
            columns, rows = columns[:6], [row[:6] for row in rows]
        print_table(columns, rows, numeric=frozenset((3, 4, 5, 6, 8)))
    else:
        print("          no relations yet: CREATE TABLE or CREATE STREAM makes the first")


def _print_engines(overview: Overview) -> None:
    """What maintained relations last, the newest first."""
    for last in overview.engines[:_MOST_ENGINES]:
        names = last.relations[0] + (f" and {len(last.relations) - 1} more" if len(last.relations) > 1 else "")
        about = "" if last.estimated_seconds is None else f", about {seconds_text(last.estimated_seconds)} estimated"
        tasks = f", {count_text(last.tasks, 'task')} on {count_text(last.executors, 'executor')}" if last.executors else ""
        print(f"\n{names}: maintained by engine {last.engine} in {seconds_text(last.seconds)}{about}{tasks}")
        print(f"  {last.why}")


def _show_status(given: argparse.Namespace) -> int:
    import os

    from platform_plugin.cli.server import server_document, server_text
    from platform_plugin.engine.spark.server.attach import status
    from platform_plugin.lake.values.stall import pinned_text
    from platform_plugin.select.overview import read_overview

    server = status(timeout=timedelta(seconds=2))
    url = given.url or os.environ.get(URL_VARIABLE)
    if url:
        check_reach(url)
    try:
        overview = read_overview(url) if url else None
    except NoLake as error:
        if _is_in_project(str(url)):
            error.hint = f"the first run in Dagster creates it: dg launch --assets '*'; or {error.hint}"
        raise
    now = datetime.now(UTC)
    if given.json:
        lake = None
        if overview is not None:
            age = (now - overview.committed_at).total_seconds()
            relations = [asdict(relation) | {"lag_seconds": relation.lag_seconds(now)} for relation in overview.relations]
            lake = asdict(overview) | {"relations": relations, "bytes": overview.bytes, "newest_commit_age_seconds": age}
        print_document({"lake": lake, "server": server_document(server), "cache_bytes": read_limit(os.environ.get(BUDGET_VARIABLE))})
        return 0
    print(f"server    {server_text(server)}")
    if overview is None:
        print(f"lake      none named: {_hint_at_url()}")
        return 0
    age = max(0.0, (now - overview.committed_at).total_seconds())
    print(f"lake      {overview.lake}")
    print(f"snapshot  {overview.snapshot}, committed {seconds_text(age)} ago; {overview.snapshots} kept, {overview.leases} under lease")
    print(f"size      {byte_text(overview.bytes)} in {count_text(sum(r.files or 0 for r in overview.relations), 'file')}")
    print(f"caches    at most {byte_text(read_limit(os.environ.get(BUDGET_VARIABLE)))} in each process; SHOW CACHES lists its own")
    copies = list(list_copies(locate_cache()))
    if copies:
        print(f"copies    {byte_text(sum(copy.bytes for copy in copies))} in {count_text(len(copies), 'file')} of {locate_cache()}")
    _print_relations(overview, now)
    _print_engines(overview)
    for stall in overview.stalls:
        first, *others = stall.lines
        print(f"\n{stall.schema}.{stall.name} is stalled: {first}")
        for line in others:
            print(indent(line, "  "))
    for each in overview.consumers:
        behind = f"{overview.snapshot - each.snapshot} behind"
        print(f"\nconsumer {each.consumer} has consumed {each.schema}.{each.name} up to snapshot {each.snapshot}, {behind}")
    for pinned in overview.pinned:
        print(f"\n{pinned_text(f'{pinned.schema}.{pinned.name}', pinned.tables, pinned.read_at)}")
    return 0


def run_tables(given: argparse.Namespace) -> int:
    """List the relations of the newest snapshot."""
    from platform_plugin.select.overview import read_overview

    url = lake_url(given)
    check_reach(url)
    overview = read_overview(url)
    if given.json:
        print_document([asdict(relation) for relation in overview.relations])
        return 0
    rows = [(r.schema, r.name, r.kind, r.rows, r.files, None if r.bytes is None else byte_text(r.bytes)) for r in overview.relations]
    print_table(
        ("schema", "name", "kind", "rows", "files", "size"),
        [["" if value is None else value for value in row] for row in rows],
        numeric=frozenset((3, 4, 5)),
    )
    print(f"{count_text(len(rows), 'relation')} at snapshot {overview.snapshot}")
    return 0


def run_snapshots(given: argparse.Namespace) -> int:
    """List the newest snapshots, newest first."""
    url = lake_url(given)
    from platform_plugin.lake.lake import Lake

    with Lake.open(url) as lake:
        records = lake.commits(limit=given.limit)[::-1]
    if given.json:
        keys = {"id": "snapshot", "time": "committed_at"}
        print_document([{keys.get(name, name): value for name, value in asdict(record).items()} for record in records])
        return 0
    rows = [(r.id, r.time.isoformat(sep=" ", timespec="milliseconds"), r.message or "", r.author or "", r.changes) for r in records]
    print_table(("snapshot", "committed at", "message", "author", "changes"), rows, numeric=frozenset((0,)))
    return 0


def run_expire(given: argparse.Namespace) -> int:
    """Forget old snapshots."""
    url = lake_url(given)
    from platform_plugin.lake.lake import Lake

    with Lake.open(url) as lake, ProgressLine("forgetting old snapshots"):
        expired = lake.expire(datetime.now(UTC) - (given.older_than or timedelta(0)), dry_run=given.dry_run)
    if given.json:
        print_document(asdict(expired) | {"dry_run": given.dry_run})
        return 0
    held = f"; {expired.leased} are held by leases" if expired.leased else ""
    held += f"; {expired.gated} stay for what passed a gate last" if expired.gated else ""
    held += f"; {expired.consumed} stay for consumers: {', '.join(expired.holders)}" if expired.consumed else ""
    would = "would be " if given.dry_run else ""
    said = _said_snapshots(expired.snapshots, given.older_than)
    print(f"{said} {would}forgotten, {count_text(expired.files, 'file')} {would}scheduled for deletion{held}")
    if expired.files and not given.dry_run:
        print("`platform vacuum` deletes the files once nobody can need them")
    return 0


def _said_snapshots(number: int, older_than: timedelta | None) -> str:
    return count_text(number, "snapshot") + (f" older than {seconds_text(older_than.total_seconds())}" if older_than else "")


def run_merge(given: argparse.Namespace) -> int:
    """Rewrite a table's small files into few large ones."""
    url = lake_url(given)
    from platform_plugin.platform import Platform
    from platform_plugin.relations.tables.merge import merge_files

    line = ProgressLine(f"merging {given.table}")
    with Platform.open(url, engine=given.engine, watcher=line.watch, limits=dict(given.engine_limit)) as platform, line:
        merged, run = merge_files(platform.work, read_written_name(given.table), progress=line.advance)
    if given.json:
        print_document(asdict(merged) | {"engine": None if run is None else run.document()})
        return 0
    said = f"{count_text(merged.rows, 'row')} kept, {count_text(merged.rows_dropped, 'deleted row')} left out"
    tasks = "" if run is None or not run.tasks else f", by {count_text(run.tasks, 'task')} on executors"
    print(f"{count_text(merged.files_before, 'file')} became {merged.files_after}: {said}{tasks}")
    return 0


def run_vacuum(given: argparse.Namespace) -> int:
    """Delete files that nobody can need, after streams have evicted what is due; `--older-than` also expires old snapshots."""
    url = lake_url(given)
    forgets = given.all or given.older_than is not None
    if given.dry_run and forgets:
        raise InvalidValue(
            f"--dry-run can't go with {'--all' if given.all else '--older-than'}",
            hint=f"run `platform expire --dry-run {'--all' if given.all else '--older-than AGE'}` and `platform vacuum --dry-run`",
        )
    from platform_plugin.lake.lake import Lake

    with Lake.open(url) as lake, ProgressLine("looking for files that nobody needs"):
        if not given.dry_run:
            lake.retain()
        expired = lake.expire(datetime.now(UTC) - (given.older_than or timedelta(0))) if forgets else None
        vacuumed = lake.vacuum(grace=given.grace, dry_run=given.dry_run)
    if given.json:
        print_document(asdict(vacuumed) | {"dry_run": given.dry_run, "expired": None if expired is None else asdict(expired)})
        return 0
    if expired is not None:
        print(f"{_said_snapshots(expired.snapshots, given.older_than)} forgotten")
    for line in _vacuum_lines(vacuumed, given.grace, dry_run=given.dry_run):
        print(line)
    return 0


def _vacuum_lines(outcome: VacuumOutcome, grace: timedelta, *, dry_run: bool) -> Iterator[str]:
    """What was deleted, what was left, and why."""
    within = seconds_text(grace.total_seconds())
    gone = outcome.scheduled + outcome.orphans
    yield f"{count_text(gone, 'file')} {'would be deleted' if dry_run else 'deleted'} ({byte_text(outcome.bytes)})"
    yield from _reasons((outcome.scheduled, "that no snapshot has any more"), (outcome.orphans, "that no commit ever named"))
    in_grace = outcome.kept - outcome.leased
    yield f"{count_text(outcome.kept + outcome.young + outcome.unknown, 'file')} left"
    yield from _reasons(
        (in_grace, f"in grace: no snapshot has had them for less than {within}"),
        (outcome.leased, "leased: a reader took a lease before they became useless"),
        (outcome.young, f"in grace: written less than {within} ago, and not named by a commit yet"),
        (outcome.unknown, "unknown: of no kind that the platform writes"),
    )
    if not outcome.is_listed:
        yield "files that no commit named were not looked for: the data folder has no mark of this lake"


def _reasons(*reasons: tuple[int, str]) -> Iterator[str]:
    return (f"  {number:,} {reason}" for number, reason in reasons if number)


def run_upgrade(given: argparse.Namespace) -> int:
    """Migrate the lake to the newest version of the format."""
    url = lake_url(given)
    from platform_plugin.lake.lake import Lake

    before, now = Lake.upgrade(url)
    if given.json:
        print_document({"before": before, "now": now})
        return 0
    print(f"DuckLake {now} already" if before == now else f"the lake has the format DuckLake {now} now, and had {before}")
    return 0


def run_check(given: argparse.Namespace) -> int:
    """Print what the catalogue says and can't be true."""
    url = lake_url(given)
    from platform_plugin.lake.lake import Lake

    with Lake.open(url) as lake, ProgressLine("reading the catalogue"):
        findings = lake.check()
    if given.json:
        print_document([asdict(finding) | {"table": str(finding.table)} for finding in findings])
        return 1 if findings else 0
    for found in findings:
        print(f"{found.table}: {count_text(found.files, 'file')} with {found.problem}, such as {found.example}\n  hint: {found.hint}")
    if not findings:
        print("nothing found")
    return 1 if findings else 0


def read_written_name(text: str) -> Name:
    """A relation's name in SQL's spelling: `users`, `raw.users`, or with back-ticks."""
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.tokens import tokenize

    tokens = tokenize(text)
    cursor = TokenCursor(tokens, 0, len(tokens), "table")
    name = cursor.name("a table's name")
    cursor.finish()
    return Name.of(name.relation if name.schema is None else (name.schema, name.relation))
