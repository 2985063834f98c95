"""DuckLake's public suite of SQL tests as a source of lakes: DuckDB runs each file, then we and DuckDB read what came of it.

`make ducklake-suite DIR=…` wants a copy of the suite's repository, which is not part of this one: its folder `test`, and `data` beside it.
Statements run with catalogues in SQLite and their expected results are not looked at: what is compared is every table at every
snapshot. What DuckDB 1.5.5 can't run is left out, what we refuse is counted by the reason that we give.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.lake import Lake
from tests.independent_reader import Duck, DuckProcess, ReaderError, _connect
from tests.lake.agreement import kept, ours, relation_of, rows_of, theirs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from platform_plugin.lake.catalogue.tables import Table

SECONDS_A_FILE = 120
MOST_SNAPSHOTS = 40
_PRESENT = {"ducklake", "parquet", "icu", "json", "sqlite_scanner", "notwindows", "notmusl", "no_alternative_verify", "skip_reload"}
_SHORT = re.compile(r"'ducklake:(?!\w{2,}:)([^']+)'")
_QUOTED = re.compile(r'"[^"]*"|\d+')


@dataclass(frozen=True, slots=True)
class Step:
    """One statement to run on a connection, or something else that a file asks for."""

    verb: str
    text: str
    connection: str = ""


class Left(Exception):
    """The file asks for something that is not here."""


def read_steps(lines: list[str], names: dict[str, str]) -> Iterator[Step]:
    """The steps of a file, loops unrolled and names replaced."""
    place = 0
    skipping = False
    while place < len(lines):
        head, *words = lines[place].split() or [""]
        place += 1
        if head in ("loop", "foreach", "concurrentloop", "concurrentforeach"):
            end = _end_of_loop(lines, place)
            name, *values = [_named(word, names) for word in words]
            if head.endswith("loop"):
                values = [str(number) for number in range(int(values[0]), int(values[1]))]
            for value in values:
                yield from read_steps(lines[place:end], names | {name: value})
            place = end + 1
        elif head == "mode":
            skipping = words[:1] == ["skip"]
        elif head in ("statement", "query"):
            sql = []
            while place < len(lines) and lines[place].strip() and lines[place].strip() != "----":
                sql.append(lines[place])
                place += 1
            while place < len(lines) and lines[place].strip():
                place += 1
            if not skipping:
                connection = next((word for word in words[1:] if word not in ("nosort", "rowsort", "valuesort")), "")
                yield Step("run", _named("\n".join(sql), names), connection)
        elif (head == "require" and words[0] not in _PRESENT) or head in ("require-env", "halt"):
            yield Step("leave", f"{head} {' '.join(words)}".strip())
        elif head == "test-env":
            names.setdefault(words[0], _named(" ".join(words[1:]), names))
        elif head in ("restart", "unzip"):
            yield Step(head, _named(" ".join(words), names))


def _end_of_loop(lines: list[str], place: int) -> int:
    depth = 1
    for index in range(place, len(lines)):
        head = (lines[index].split() or [""])[0]
        depth += head in ("loop", "foreach", "concurrentloop", "concurrentforeach")
        depth -= head == "endloop"
        if not depth:
            return index
    return len(lines)


def _named(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace("${" + name + "}", value).replace("{" + name + "}", value).replace(f"__{name}__", value)
    return text


def run_file(path: Path, folder: Path) -> dict[str, Any]:
    """Run one file's statements; errors are a part of many, and the lakes are compared as they are."""
    unique = uuid.uuid4().hex
    names = {"TEST_DIR": str(folder), "UUID": unique, "BASE_TEST_NAME": path.stem, "TEST_NAME": path.stem}
    names |= {"DUCKLAKE_CONNECTION": f"sqlite:{folder}/{unique}.db", "WORKING_DIRECTORY": str(Path.cwd())}
    connections: dict[str, duckdb.DuckDBPyConnection] = {"": _connect()}
    done = failed = 0
    try:
        for step in read_steps(path.read_text().splitlines(), names):
            if step.verb == "leave":
                raise Left(step.text)
            if step.verb == "restart":
                for connection in connections.values():
                    connection.close()
                connections = {"": _connect()}
            elif step.verb == "unzip":
                source, _, target = step.text.partition(" ")
                with gzip.open(source) as packed:
                    Path(target).write_bytes(packed.read())
            else:
                if step.connection not in connections:
                    connections[step.connection] = connections[""].cursor()
                try:
                    # Catalogues in files of DuckDB are not for us: those of this run are in SQLite.
                    connections[step.connection].execute(_SHORT.sub(r"'ducklake:sqlite:\1'", step.text)).fetchall()
                    done += 1
                except Exception:  # noqa: BLE001  many statements are meant to fail
                    failed += 1
    except (Left, OSError, ValueError, IndexError) as reason:
        return {"done": done, "failed": failed, "left": str(reason)}
    finally:
        for connection in reversed(connections.values()):
            connection.close()
    return {"done": done, "failed": failed, "left": None}


@dataclass(slots=True)
class Tally:
    """What came of the comparison."""

    same: int = 0
    files: int = 0
    lakes: int = 0
    different: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def report(self) -> int:
        """Say it; the exit code."""
        print(f"{self.files} files, {self.lakes} lakes: {self.same} tables x snapshots are the same")
        for title, counts in (("refused by us", self.refused), ("not read by DuckDB", self.unread), ("files left early", self.left)):
            print(f"{title}: {sum(counts.values())}")
            for what, count in counts.most_common():
                print(f"  {count:6} {what}")
        for title, found in (("DIFFERENT", self.different), ("BROKEN", self.broken)):
            print(f"{title}: {len(found)}")
            for what in found[:50]:
                print(f"  {what}")
        return 1 if self.different or self.broken else 0


def compare(tally: Tally, process: DuckProcess, test: str, folder: Path) -> None:
    """Read every table of every lake of a folder at every snapshot, up to so many of them."""
    for file in sorted(folder.rglob("*.db")):
        data_path = _data_path(file)
        if data_path is None:
            continue
        tally.lakes += 1
        try:
            reader = Duck(process, process.ask("attach", f"ATTACH 'ducklake:sqlite:{file}' AS lake (READ_ONLY)"))
        except ReaderError as error:
            tally.unread[f"{error.kind} at ATTACH"] += 1
            continue
        location = Location(
            text=str(file),
            catalogue=sa.URL.create("sqlite", database=str(file)),
            data_path=data_path,
            folder=None,
            schema=None,
            spark=None,
            outside=(f"{folder}/", f"{Path.cwd()}/"),
        )
        try:
            with Lake(location, uuid=uuid.uuid4(), data_path=data_path) as lake:
                _compare_lake(tally, lake, reader, test)
        finally:
            reader.close()


def _compare_lake(tally: Tally, lake: Lake, reader: Duck, test: str) -> None:
    try:
        snapshots = kept(lake)
    except PlatformError as error:
        tally.refused[_reason(error)] += 1
        return
    half = MOST_SNAPSHOTS // 2
    for snapshot in snapshots if len(snapshots) <= MOST_SNAPSHOTS else [*snapshots[:half], *snapshots[-half:]]:
        try:
            tables = lake.tables(snapshot)
        except PlatformError as error:
            tally.refused[_reason(error)] += 1
            continue
        for table in tables:
            what = f"{test}: {table.name} at {snapshot.id}"
            try:
                expected = theirs(reader, relation_of(table), version=snapshot.id)
            except ReaderError as error:
                tally.unread[error.kind] += 1
                continue
            try:
                found = ours(lake, table.name, snapshot=snapshot)
            except PlatformError as error:
                tally.refused[_reason(error)] += 1
            except Exception as error:  # noqa: BLE001  whatever is no refusal is a defect, and the next table waits
                tally.broken.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
            else:
                # Times in nanoseconds are more than Python's own type holds.
                if found == expected or found == Counter(rows_of(reader.arrow(_select(table, snapshot.id)))):
                    tally.same += 1
                else:
                    tally.different.append(f"{what}: only ours {list(found - expected)[:2]}, only DuckDB's {list(expected - found)[:2]}")


def _select(table: Table, version: int) -> str:
    return f"SELECT * FROM {relation_of(table)} AT (VERSION => {version})"


def _reason(error: PlatformError) -> str:
    return f"{type(error).__name__}: {_QUOTED.sub('…', error.message)}"[:150]


def _data_path(file: Path) -> str | None:
    """Where a catalogue says that its files are; None for any other file."""
    if file.read_bytes()[:6] != b"SQLite":
        return None
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(file)))
    try:
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table("ducklake_metadata"):
                return None
            found = connection.execute(sa.text("SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL")).scalar()
    except sa.exc.DatabaseError:
        return None
    finally:
        engine.dispose()
    return None if found is None else f"{(Path.cwd() / str(found)).absolute()}/"


def run_suite(suite: Path, only: str, *, every: int, minutes: float | None) -> int:
    """Run the files of a suite, each in a process of its own, and compare what each leaves."""
    tally = Tally()
    process = DuckProcess()
    files = sorted(path for path in (suite / "test").rglob("*.test*") if only in str(path))[::every]
    if not files:
        print(f"no test files below {suite}/test")
        return 2
    began = time.monotonic()
    try:
        for number, path in enumerate(files, start=1):
            if minutes is not None and time.monotonic() - began > minutes * 60:
                print(f"ended after {tally.files} of {len(files)} files: the time is over")
                break
            _run_and_compare(tally, process, suite, path)
            if number % 50 == 0:
                print(f"{number} of {len(files)} files, {time.monotonic() - began:.0f} s, {tally.same} the same", flush=True)
    except KeyboardInterrupt:
        print(f"ended after {tally.files} of {len(files)} files")
    process.stop()
    return tally.report()


def _run_and_compare(tally: Tally, process: DuckProcess, suite: Path, path: Path) -> None:
    name = str(path.relative_to(suite / "test"))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.ducklake_suite", "--run", str(path), "--folder", folder, str(suite)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_A_FILE, check=False)
        except subprocess.TimeoutExpired:
            tally.left["it took too long"] += 1
        else:
            result = json.loads(done.stdout) if done.returncode == 0 else {"left": f"DuckDB ended with {done.returncode}"}
            if result["left"] is not None:
                tally.left[result["left"]] += 1
        tally.files += 1
        compare(tally, process, name, Path(folder))


def main() -> int:
    """The command's own arguments."""
    import os

    parser = argparse.ArgumentParser(prog="make ducklake-suite", description=__doc__)
    parser.add_argument("suite", type=Path, help="a copy of DuckLake's repository")
    parser.add_argument("--only", default="", help="only files whose path holds this")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth file")
    parser.add_argument("--minutes", type=float, metavar="N", help="end after so many minutes, and report what was compared until then")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    root = Path.cwd()
    suite = given.suite.absolute()
    sys.path.insert(0, str(root))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    # The suite names its own files as seen from its root.
    os.chdir(suite)
    if given.run is not None:
        print(json.dumps(run_file(given.run, given.folder)))
        return 0
    return run_suite(suite, given.only, every=given.every, minutes=given.minutes)


if __name__ == "__main__":
    sys.exit(main())
