"""SHOW and DESCRIBE: what the catalogue knows, as rows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.relations import STATE, Declaration, read_declarations
from platform_plugin.lake.catalogue.tables import Table, View
from platform_plugin.lake.read.sizes import count_tables
from platform_plugin.language import statements as s
from platform_plugin.language.statements.create_stream import feed_text
from platform_plugin.language.statements.registry import statement_text
from platform_plugin.language.text.places import at
from platform_plugin.language.text.writing import identifier, name_text, type_text
from platform_plugin.relations.bind import bind_query, lake_name, pointing_at
from platform_plugin.relations.result import Result
from platform_plugin.relations.samples.definition import Definition
from platform_plugin.relations.samples.record import Sample, find_sample
from platform_plugin.relations.samples.sources import sample_statement
from platform_plugin.relations.streams.declaration import stream_statement
from platform_plugin.relations.streams.feeds.quarantine import find_quarantine
from platform_plugin.relations.streams.figures import read_figures
from platform_plugin.relations.streams.history import HISTORY_OF, find_source
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.lake import Lake

_RELATIONS = {"TABLES": "table", "STREAMS": "stream", "VIEWS": "view", "SAMPLES": "sample"}


def run_show(work: Workspace, statement: s.Show) -> Result:
    """A list from the catalogue at the newest snapshot."""
    lake = work.lake
    snapshot = lake.snapshot()
    with lake.reading() as connection:
        rows = _rows(lake, connection, statement, snapshot)
    shape = _SHAPES[statement.subject.upper()]
    if statement.like is not None:
        named = "name" if "name" in shape else next(iter(shape))
        rows = [row for row in rows if _like(str(row[named]), statement.like)]
    return Result(as_table(rows, shape), snapshot=snapshot)


def _rows(lake: Lake, connection: Connection, statement: s.Show, snapshot: Snapshot) -> list[dict[str, Any]]:
    subject = statement.subject.upper()
    if subject in _RELATIONS:
        return [
            row
            for row in relation_rows(lake, connection, snapshot, schema=statement.schema)
            if subject == "TABLES" or row["kind"] == _RELATIONS[subject]
        ]
    if subject == "SCHEMAS":
        return [{"schema": name} for name in lake.schemas(snapshot)]
    if subject == "SNAPSHOTS":
        return [
            {
                "snapshot": record.id,
                "committed_at": record.time,
                "message": record.message,
                "author": record.author,
                "changes": record.changes,
            }
            for record in lake.commits(limit=1000)
        ]
    if subject == "COLUMNS" and statement.name is not None:
        with pointing_at(statement.name.span):
            return column_rows(lake.find_table(connection, lake_name(statement.name), snapshot).fields)
    if subject == "CREATE" and statement.name is not None:
        with pointing_at(statement.name.span):
            return [{"statement": created(lake, connection, statement.name, snapshot)}]
    raise at(statement.span).attach(
        InvalidValue(f"SHOW {subject} is not known", hint="SHOW TABLES, STREAMS, VIEWS, SAMPLES, SCHEMAS, SNAPSHOTS or COLUMNS FROM name")
    )


def relation_rows(lake: Lake, connection: Connection, snapshot: Snapshot, *, schema: str | None = None) -> list[dict[str, Any]]:
    """Every relation but the parts of views with its kind and size; rows are counted from the catalogue, deleted ones taken off."""
    declared = read_declarations(connection)
    counts = count_tables(connection, snapshot)
    rows = []
    relations: list[Table | View] = [*lake.tables(snapshot), *lake.views(snapshot)]
    for relation in relations:
        if schema is None or relation.name.schema == schema:
            kind = "view" if isinstance(relation, View) else declared.get(str(relation.uuid), Declaration()).kind
            if kind == STATE:
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
    """A relation's columns; when extended, also what it is and how it was declared."""
    from platform_plugin.relations.samples.figures import sample_facts
    from platform_plugin.relations.views.figures import view_facts
    from platform_plugin.relations.views.record import result_fields

    lake = work.lake
    snapshot = lake.snapshot()
    with lake.reading() as connection, pointing_at(statement.name.span):
        relation = lake.find_relation(connection, lake_name(statement.name), snapshot)
        record = read_records(connection, only=relation.uuid).get(relation.uuid)
        if record is not None:
            rows = column_rows(result_fields(record))
        else:
            rows = _view_columns(work, relation, snapshot) if isinstance(relation, View) else column_rows(relation.fields)
        if statement.extended:
            rows += _extended(lake, connection, relation, snapshot)
            if record is not None:
                rows += fact_rows(view_facts(work, str(relation.name), record, snapshot, internal=statement.internal))
            sample = find_sample(lake, relation, snapshot) if isinstance(relation, Table) else None
            if sample is not None:
                rows += fact_rows(sample_facts(work, sample, snapshot))
    return Result(as_table(rows, _SHAPES["DESCRIBE"]), snapshot=snapshot)


def _view_columns(work: Workspace, view: View, snapshot: Snapshot) -> list[dict[str, Any]]:
    """A view's columns are what its query gives now."""
    from platform_plugin.engine.spark.frames.schema import from_spark_type

    bound = bind_query(work, f"SELECT * FROM {identifier(view.name.schema)}.{identifier(view.name.relation)}", snapshot)
    with work.session.job():
        fields = bound.frame.schema.fields
    return [
        {
            "column": part.name,
            "type": type_text(from_spark_type(part.dataType, column=part.name)),
            "nullable": True,
            "default": None,
            "comment": None,
        }
        for part in fields
    ]


def _extended(lake: Lake, connection: Connection, relation: Table | View, snapshot: Snapshot) -> list[dict[str, Any]]:
    found = (row for row in relation_rows(lake, connection, snapshot, schema=relation.name.schema) if row["name"] == relation.name.relation)
    row = next(found, dict.fromkeys(_SHAPES["RELATIONS"]))
    declared = read_declarations(connection).get(str(relation.uuid), Declaration())
    facts = {name: row[name] for name in ("kind", "rows", "files", "bytes", "comment")}
    if declared.kind != "sample":
        facts |= dict(declared.options)
    if declared.primary_key:
        facts["primary_key"] = ", ".join(declared.primary_key)
    if isinstance(relation, Table) and declared.kind == "stream":
        feed = stream_statement(statement_name(relation), relation, declared).feed
        facts |= {} if feed is None else {"feed": feed_text(feed)}
        facts |= _stream_facts(lake, connection, relation, snapshot)
    if isinstance(relation, View):
        facts = {"kind": "view", "query": relation.sql, "comment": relation.comment}
    return fact_rows(facts)


def fact_rows(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What DESCRIBE EXTENDED says beside the columns."""
    return [
        {"column": f"# {name}", "type": str(value), "nullable": None, "default": None, "comment": None}
        for name, value in facts.items()
        if value is not None
    ]


def _stream_facts(lake: Lake, connection: Connection, stream: Table, snapshot: Snapshot) -> dict[str, Any]:
    now = datetime.now(UTC)
    figures = read_figures(connection, stream, snapshot, now)
    quarantine = find_quarantine(lake, stream, snapshot)
    facts: dict[str, Any] = {}
    if figures is not None:
        lag = figures.lag_seconds(now)
        facts |= {
            "segments": figures.segments,
            "row ids": f"{figures.first_row_id} to {figures.next_row_id - 1}" if figures.rows else "none",
            "rows a second": f"{figures.rows_per_second:.1f} in the last minute, in {figures.segments_per_second:.1f} segments a second",
            "writers": f"{figures.writers} in the last minute",
            "last arrival": None if lag is None else f"{figures.last_arrival:%Y-%m-%d %H:%M:%S.%f}, {lag:.1f} seconds ago",
            "oldest arrival": figures.oldest_arrival,
            "bytes held by readers": figures.bytes_held_by_readers or None,
            "unconsumed rows": figures.unconsumed_rows or None,
            "history": figures.history,
        }
    if quarantine is not None:
        rows = count_tables(connection, snapshot).get(quarantine.id or -1, (0, 0, 0))[1]
        facts["quarantine"] = f"{rows} records in {quarantine.name}"
    return facts


def statement_name(relation: Table | View) -> s.Name:
    """The name of a relation as statements have it."""
    return s.Name(parts=(relation.name.schema, relation.name.relation))


def created(lake: Lake, connection: Connection, name: s.Name, snapshot: Snapshot) -> str:
    """The statement that makes a relation like this one."""
    relation = lake.find_relation(connection, lake_name(name), snapshot)
    written = statement_name(relation)
    if isinstance(relation, View):
        aliases = ", ".join(identifier(column) for column in relation.columns)
        return f"CREATE VIEW {name_text(written)}{f' ({aliases})' if aliases else ''} AS {relation.sql}"
    declared = read_declarations(connection).get(str(relation.uuid), Declaration())
    options = declared.options
    if declared.kind == "stream":
        return statement_text(stream_statement(written, relation, declared))
    if declared.kind == "sample":
        return statement_text(sample_statement(lake, written, Sample(table=relation, definition=Definition.of(options)), snapshot))
    if (stream := find_source(lake, declared, snapshot)) is not None:
        source = s.Name(parts=(stream.name.schema, stream.name.relation))
        return statement_text(s.CreateHistory(name=written, stream=source))
    others = tuple(s.Option(name=key, value=value) for key, value in options.items() if key not in {"primary_key", HISTORY_OF})
    return statement_text(
        s.CreateTable(name=written, columns=relation.fields, primary_key=declared.primary_key, comment=relation.comment, options=others)
    )


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
    "CREATE": {"statement": pa.string()},
    "DESCRIBE": {"column": pa.string(), "type": pa.string(), "nullable": pa.bool_(), "default": pa.string(), "comment": pa.string()},
}
_SHAPES |= dict.fromkeys(("TABLES", "STREAMS", "VIEWS", "SAMPLES"), _SHAPES["RELATIONS"]) | {"COLUMNS": _SHAPES["DESCRIBE"]}


def as_table(rows: list[dict[str, Any]], shape: dict[str, pa.DataType]) -> pa.Table:
    """Rows as Arrow with these columns, also when there are none."""
    return pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in shape.items()})


def _like(text: str, pattern: str) -> bool:
    """SQL's LIKE, without regard to case."""
    translated = "".join(".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern)
    return re.fullmatch(translated, text, re.IGNORECASE | re.DOTALL) is not None
