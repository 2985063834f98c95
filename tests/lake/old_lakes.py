"""The corpus of old lakes: unpacking one at a new place, and restoring its catalogue into PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.location import Location

if TYPE_CHECKING:
    from tests.postgres import Database

FOLDER = Path(__file__).parent / "old"
NAMES = tuple(sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz")))
_TYPES = {"BIGINT": sa.BigInteger, "INTEGER": sa.Integer, "BLOB": sa.LargeBinary, "DOUBLE": sa.Double, "FLOAT": sa.Double}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldLake:
    """A lake of an earlier version at a place of its own: where it is, and what that version has told of it."""

    name: str
    url: str
    root: Path
    expected: dict[int, dict[str, list[tuple[Any, ...]]]]
    state: dict[str, Any]


def unpack(name: str, root: Path) -> OldLake:
    """One of the corpus in this folder, as if it had been made there."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(root, filter="data")
    told = json.loads((root / "expected.json").read_text())
    move(root, told["root"])
    expected = {
        int(snapshot): {relation: [tuple(row) for row in rows] for relation, rows in relations.items()}
        for snapshot, relations in told["expected"].items()
    }
    return OldLake(name=name, url=f"platform+local://{root}/lake", root=root, expected=expected, state=told["state"])


def move(root: Path, before: str) -> None:
    """Write the new place wherever the old one is named."""
    mark = root / "lake" / "data" / "_platform_lake.json"
    mark.write_text(mark.read_text().replace(before, str(root)))
    connection = sqlite3.connect(root / "lake" / "lake.sqlite")
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for _, column, kind, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            if kind == "VARCHAR":
                connection.execute(f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?)', (before, str(root)))
    connection.commit()
    connection.close()


def restore(old: OldLake, database: Database) -> OldLake:
    """The same lake with its catalogue in PostgreSQL, row for row."""
    source = sa.create_engine(Location.parse(old.url).catalogue)
    url = database.lake_url(old.root / "lake" / "data")
    target = sa.create_engine(Location.parse(url).catalogue)
    known = sa.MetaData()
    with source.connect() as before, target.begin() as after:
        look = sa.inspect(before)
        for name in look.get_table_names():
            table = _typed(known, name, look)
            table.create(after)
            rows = [dict(row._mapping) for row in before.execute(sa.select(table))]
            if rows:
                after.execute(sa.insert(table), rows)
        for (text,) in before.execute(sa.text("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")):
            after.execute(sa.text(text))
    source.dispose()
    target.dispose()
    return OldLake(name=old.name, url=url, root=old.root, expected=old.expected, state=old.state)


def _typed(known: sa.MetaData, name: str, look: Any) -> sa.Table:
    """A table as it is in SQLite, with the types that its columns have in PostgreSQL."""
    ours = c.metadata.tables.get(name)
    keys = set(look.get_pk_constraint(name)["constrained_columns"])
    columns = []
    for column in look.get_columns(name):
        same = None if ours is None or column["name"] not in ours.c else ours.c[column["name"]].type
        kind = same or _TYPES.get(str(column["type"]).split("(")[0], sa.String)()
        columns.append(
            sa.Column(column["name"], kind, primary_key=column["name"] in keys, nullable=column["nullable"], autoincrement=False)
        )
    return sa.Table(name, known, *columns)


def dump(url: str) -> dict[str, list[str]]:
    """All rows of a catalogue, without the leases that readers take."""
    engine = sa.create_engine(Location.parse(url).catalogue)
    with engine.connect() as connection:
        names = [name for name in sa.inspect(connection).get_table_names() if name != c.PLATFORM_LEASE.name]
        found = {name: sorted(repr(tuple(row)) for row in connection.execute(sa.text(f'SELECT * FROM "{name}"'))) for name in names}
    engine.dispose()
    return found
