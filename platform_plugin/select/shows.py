"""`run_show` and `run_describe`: SHOW, SHOW CREATE and DESCRIBE, as rows from the catalogue."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.cache import list_figures
from platform_plugin.engine.limits import list_limits
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.stalls import read_stalls
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.lake.commit.passes import read_pass
from platform_plugin.lake.cursors.holding import read_change_consumers
from platform_plugin.lake.read.sizes import count_tables
from platform_plugin.language.text.places import locate_offset
from platform_plugin.language.text.writing import type_text
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.kinds import every_kind, find_kind, is_hidden, kind_name
from platform_plugin.relations.result import Result
from platform_plugin.relations.tables.kind import TABLE
from platform_plugin.select.rules import rule_rows
from platform_plugin.state.touch import hot_copies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.values.stall import Stall
    from platform_plugin.language import statements as s


def run_show(work: Workspace, statement: s.Show) -> Result:
    """A list from the catalogue at the newest snapshot."""
    lake = work.lake
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        rows = _rows(work, connection, statement, snapshot)
    shape = _SHAPES.get(statement.subject.upper(), _SHAPES["RELATIONS"])
    if statement.like is not None:
        named = "name" if "name" in shape else next(iter(shape))
        rows = [row for row in rows if _like(str(row[named]), statement.like)]
    return Result(as_table(rows, shape), snapshot=snapshot)


def _rows(work: Workspace, connection: Connection, statement: s.Show, snapshot: Snapshot) -> list[dict[str, Any]]:
    lake, subject = work.lake, statement.subject.upper()
    plurals = {kind.plural: kind for kind in every_kind() if not kind.is_hidden}
    if subject in plurals:
        wanted = plurals[subject]
        # TABLES lists whatever has rows to select.
        rows = relation_rows(lake, connection, snapshot, schema=statement.schema)
        return rows if wanted is TABLE else [row for row in rows if row["kind"] == wanted.name]
    if subject == "SCHEMAS":
        return [{"schema": name} for name in lake.schemas(snapshot)]
    if subject == "SNAPSHOTS":
        of = None
        if statement.name is not None:
            with place_errors(statement.name.span):
                of = lake.find_relation(connection, lake_name(statement.name), snapshot)
        return [
            {
                "snapshot": record.id,
                "committed_at": record.time,
                "message": record.message,
                "author": record.author,
                "changes": record.changes,
            }
            for record in lake.commits(limit=1000, of=of)
        ]
    if subject == "CACHES":
        return [asdict(figures) for figures in (*list_figures(), hot_copies(work).figures())]
    if subject == "LIMITS":
        return list_limits(work.limits)
    if subject == "RULES":
        return rule_rows(work)
    if subject == "CONSUMERS":
        return [
            {
                "name": consumer.name,
                "schema": consumer.table.name.schema,
                "relation": consumer.table.name.relation,
                "snapshot": consumer.position,
                "behind": snapshot.id - consumer.position,
                "holds": not consumer.drops,
            }
            for consumer in read_change_consumers(connection, snapshot)
        ]
    if subject == "COLUMNS" and statement.name is not None:
        with place_errors(statement.name.span):
            return column_rows(lake.find_table(connection, lake_name(statement.name), snapshot).fields)
    if subject == "CREATE" and statement.name is not None:
        with place_errors(statement.name.span):
            return [{"statement": create_statement(lake, connection, statement.name, snapshot)}]
    raise locate_offset(statement.span).attach(
        InvalidValue(
            f"SHOW {subject} is not known",
            hint=f"SHOW {', '.join(plurals)}, SCHEMAS, SNAPSHOTS, CACHES, LIMITS, RULES, CONSUMERS or COLUMNS FROM name",
        )
    )


def relation_rows(lake: Lake, connection: Connection, snapshot: Snapshot, *, schema: str | None = None) -> list[dict[str, Any]]:
    """Every relation except hidden ones, with its kind and size; row counts are the catalogue's, without deleted rows."""
    counts = count_tables(connection, snapshot)
    rows = []
    relations: list[Table | View] = [*lake.tables(snapshot), *lake.views(snapshot)]
    for relation in relations:
        if schema is None or relation.name.schema == schema:
            kind = kind_name(lake, relation, snapshot)
            if is_hidden(kind):
                continue
            files, records, size = counts.get(relation.id or -1, (0, 0, 0)) if isinstance(relation, Table) else (None, None, None)
            rows.append(
                {
                    "schema": relation.name.schema,
                    "name": relation.name.relation,
                    "kind": kind,
                    "rows": records,
                    "files": files,
                    "bytes": size,
                    "comment": relation.comment,
                }
            )
    return rows


def column_rows(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """The columns of a relation, in order."""
    return [
        {
            "column": field.name,
            "type": type_text(field.type),
            "nullable": field.nullable,
            "default": field.default,
            "comment": field.comment,
        }
        for field in fields
    ]


def run_describe(work: Workspace, statement: s.Describe) -> Result:
    """A relation's columns; with EXTENDED also its kind, options and figures."""
    lake = work.lake
    snapshot = lake.snapshot()
    with lake.reading() as connection, place_errors(statement.name.span):
        relation = lake.find_relation(connection, lake_name(statement.name), snapshot)
        kind = find_kind(lake, relation, snapshot)
        rows = column_rows(kind.fields(work, relation, snapshot))
        stalls = _find_stalls(connection, relation, snapshot)
        if statement.extended:
            declaration = read_declaration(connection, relation.uuid)
            facts = kind.facts(work, relation, declaration, snapshot, internal=statement.internal)
            sizes = _sizes(lake, connection, relation, snapshot)
            rows += fact_rows({**{name: value for name, value in sizes.items() if name not in facts}, **facts})
            rows += fact_rows({f"stalled by {stall.cause}": "\n".join(stall.lines) for stall in stalls})
        said = [f"{relation.name} is stalled: " + "\n  ".join(stall.lines) for stall in stalls]
        said += kind.notices(work, relation, snapshot)
    return Result(as_table(rows, _SHAPES["DESCRIBE"]), snapshot=snapshot, message="" if statement.extended else "\n".join(said))


def _find_stalls(connection: Connection, relation: Table | View, snapshot: Snapshot) -> list[Stall]:
    """What stalls a relation, of a gate with the version that passed last."""
    stalls = read_stalls(connection, relation)
    passed = read_pass(connection, relation.name, snapshot) if stalls else None
    return [replace(stall, passed=passed.snapshot_id) if passed is not None and stall.cause == "gate" else stall for stall in stalls]


def _sizes(lake: Lake, connection: Connection, relation: Table | View, snapshot: Snapshot) -> dict[str, Any]:
    """What SHOW says of a relation; nothing of one that it does not list."""
    listed = relation_rows(lake, connection, snapshot, schema=relation.name.schema)
    row = next((row for row in listed if row["name"] == relation.name.relation), dict.fromkeys(_SHAPES["RELATIONS"]))
    return {name: row[name] for name in ("kind", "rows", "files", "bytes", "comment")}


def fact_rows(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of DESCRIBE EXTENDED after the columns."""
    return [
        {"column": f"# {name}", "type": str(value), "nullable": None, "default": None, "comment": None}
        for name, value in facts.items()
        if value is not None
    ]


def create_statement(lake: Lake, connection: Connection, name: s.WrittenName, snapshot: Snapshot) -> str:
    """The statement that creates a relation like this one."""
    relation = lake.find_relation(connection, lake_name(name), snapshot)
    declaration = read_declaration(connection, relation.uuid)
    return find_kind(lake, relation, snapshot).text(lake, relation, declaration, snapshot)


_SHAPES: dict[str, dict[str, pa.DataType]] = {
    "RELATIONS": {
        "schema": pa.string(),
        "name": pa.string(),
        "kind": pa.string(),
        "rows": pa.int64(),
        "files": pa.int64(),
        "bytes": pa.int64(),
        "comment": pa.string(),
    },
    "SCHEMAS": {"schema": pa.string()},
    "SNAPSHOTS": {
        "snapshot": pa.int64(),
        "committed_at": pa.timestamp("us", tz="UTC"),
        "message": pa.string(),
        "author": pa.string(),
        "changes": pa.string(),
    },
    "CACHES": {"name": pa.string(), "entries": pa.int64(), "bytes": pa.int64(), "hits": pa.int64(), "misses": pa.int64()},
    "LIMITS": {
        "name": pa.string(),
        "value": pa.int64(),
        "default": pa.int64(),
        "set_by": pa.string(),
        "decides": pa.string(),
        "measured": pa.string(),
    },
    "CONSUMERS": {
        "name": pa.string(),
        "schema": pa.string(),
        "relation": pa.string(),
        "snapshot": pa.int64(),
        "behind": pa.int64(),
        "holds": pa.bool_(),
    },
    "RULES": {"name": pa.string(), "is_on": pa.bool_(), "description": pa.string()},
    "CREATE": {"statement": pa.string()},
    "DESCRIBE": {"column": pa.string(), "type": pa.string(), "nullable": pa.bool_(), "default": pa.string(), "comment": pa.string()},
}
_SHAPES |= {"COLUMNS": _SHAPES["DESCRIBE"]}


def as_table(rows: list[dict[str, Any]], shape: dict[str, pa.DataType]) -> pa.Table:
    """Rows as Arrow with these columns, even without rows."""
    return pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in shape.items()})


def _like(text: str, pattern: str) -> bool:
    """SQL's LIKE, without regard to case."""
    translated = "".join(".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern)
    return re.fullmatch(translated, text, re.IGNORECASE | re.DOTALL) is not None
