"""CREATE SAMPLE: creates the sample's table, its definition and its cursor in a stream, in one commit."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive
from platform_plugin.engine.option import ENGINE
from platform_plugin.errors import InvalidValue, ObjectExists, UnknownObject
from platform_plugin.lake.catalogue.relations import RELATION_TABLES, STATE, Declaration, declare_relation, read_declaration
from platform_plugin.lake.catalogue.tables import Table, View
from platform_plugin.lake.ring.segments import RING_TABLES
from platform_plugin.language.text.places import locate_offset, suggest_word
from platform_plugin.language.text.writing import type_text
from platform_plugin.relations.bind.names import lake_name, new_name, place_errors
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.follow.ranges import read_first_row_id
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.missing import name_missing_relations
from platform_plugin.relations.samples.definition import LARGEST, SampleDefinition, parse_window
from platform_plugin.relations.samples.draw.merged import check_parts, plan_merged
from platform_plugin.relations.samples.keys.weights import SAMPLE_WEIGHT, is_decay_time_type, is_sample_weight_type, weight_field
from platform_plugin.relations.samples.record import KIND, TABLES, AttachSample, MergeSamples, SampleProgress, StoreSample, find_sample
from platform_plugin.relations.samples.reservoir.weighing import local_condition
from platform_plugin.relations.target import find_existing, statement_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language import statements as s
    from platform_plugin.relations.result import Result
    from platform_plugin.relations.samples.definition import Source

# The types whose values are the same text wherever they are read.
_STRATA = {"boolean", "varchar", "date", "int8", "int16", "int32", "int64"}


def run_create_sample(work: Workspace, statement: s.CreateSample) -> Result:
    """Create a sample. Of a stream it covers what the stream holds now and all that arrives, of tables and views their rows."""
    lake, name = work.lake, lake_name(statement.name)
    with lake.lease(holder="create sample") as lease:
        base = lease.snapshot
        old = find_existing(lake, name, base)
        if old is not None:
            if statement.if_not_exists:
                return statement_result(base, f"sample {name} exists already")
            raise locate_offset(statement.name.span).attach(ObjectExists(f'"{name}" exists already', hint="choose another name"))
        relation: Table | View | None = None
        if statement.parts:
            fields, definition = _merged(work, statement, base)
        else:
            wanted = lake_name(statement.relation)
            with place_errors(statement.relation.span), name_missing_relations(lake, wanted, base), lake.reading() as connection:
                relation = lake.find_relation(connection, wanted, base)
            source = _source(work, statement, relation)
            fields = find_kind(lake, relation, base).fields(work, relation, base)
            _check_strata(statement, fields)
            if statement.where is not None:
                _check_condition(work, statement, relation, fields, base)
            definition = _definition(statement, relation, source)
            if definition.is_weighted:
                fields, definition = _weighted(statement, relation, definition)
        lake.prepare_tables([*RELATION_TABLES, *RING_TABLES, *TABLES])
        with place_errors(statement.name.span), lake.commit(f"create sample {name}", base=base) as commit:
            shown = [replace(field, nullable=True, default=None) for field in fields]
            table = commit.create_table(name, shown)
            declare_relation(commit, table, Declaration(kind=KIND, options=definition.options()))
            if definition.parts:
                commit.also(MergeSamples(sample=table, parts=definition.parts))
            if isinstance(relation, Table) and definition.source == "stream":
                start = read_first_row_id(lake, relation, base, earliest=True)
                if definition.is_windowed:
                    commit.also(StoreSample(sample=table, progress=SampleProgress(next_row_id=start)))
                else:
                    commit.also(AttachSample(sample=table, stream=relation, next_row_id=start))
    return statement_result(commit.made, f"sample {name} created")


def _source(work: Workspace, statement: s.CreateSample, relation: Table | View) -> Source:
    if isinstance(relation, View):
        return "view"
    with work.lake.reading() as connection:
        kind = read_declaration(connection, relation.uuid).kind
    if kind in (KIND, STATE):
        what = "a sample itself" if kind == KIND else "part of a continuous view"
        hint = "sample what it was made from" + (", or merge samples: ON SAMPLES (one, other)" if kind == KIND else "")
        raise locate_offset(statement.relation.span).attach(InvalidValue(f'"{relation.name}" is {what}', hint=hint))
    return "stream" if kind == "stream" else "table"


def _merged(work: Workspace, statement: s.CreateSample, base: Snapshot) -> tuple[tuple[Field, ...], SampleDefinition]:
    """The columns and the definition of a sample that merges others."""
    parts = []
    for written in statement.parts:
        with place_errors(written.span), work.lake.reading() as connection:
            if str(lake_name(written)).lower() == str(lake_name(statement.name)).lower():
                raise InvalidValue(f'sample "{lake_name(written)}" can\'t be part of itself', hint="give the merged sample another name")
            relation = work.lake.find_relation(connection, lake_name(written), base)
            found = find_sample(work.lake, relation, base) if isinstance(relation, Table) else None
            if found is None:
                raise InvalidValue(f'"{relation.name}" is not a sample', hint=f"make one of it first: CREATE SAMPLE … ON {relation.name}")
        parts.append(found)
    _check_sizes(statement)
    window = next((option for option in statement.options if option.name == "window"), None)
    if window is not None:
        raise locate_offset(window.span).attach(InvalidValue("a merged sample has no window of its own", hint="give its samples one"))
    with place_errors(statement.span):
        check_parts(work.lake, parts, statement.size, base)
    return parts[0].table.fields, plan_merged(parts, statement.size, _seed(statement))


def _check_strata(statement: s.CreateSample, fields: tuple[Field, ...]) -> None:
    known = {field.name.lower(): field for field in fields}
    for column in statement.strata:
        field = known.get(column.lower())
        if field is None:
            hint = suggest_word(column, [field.name for field in fields]) or f"its columns are {', '.join(field.name for field in fields)}"
            raise locate_offset(statement.span).attach(
                UnknownObject(f'column "{column}" does not exist in "{statement.relation}"', hint=hint)
            )
        if not isinstance(field.type, Decimal) and not (isinstance(field.type, Primitive) and field.type.name in _STRATA):
            raise locate_offset(statement.span).attach(
                InvalidValue(
                    f'column "{column}" has the type {field.type}, by which nothing is stratified', hint="use whole numbers, texts or dates"
                )
            )


def _check_condition(
    work: Workspace, statement: s.CreateSample, relation: Table | View, fields: Sequence[Field], snapshot: Snapshot
) -> None:
    from platform_plugin.engine.spark.frames.scan import query_relations
    from platform_plugin.language.query.query import analyse_expression
    from platform_plugin.language.query.volatile import find_volatile_call
    from platform_plugin.language.text.tokens import tokenize
    from platform_plugin.language.text.writing import identifier
    from platform_plugin.relations.faults import place_spark_errors

    where = statement.where
    if where is None:
        return
    tokens = tokenize(where.source, where.start, where.end)
    volatile = find_volatile_call(tokens, [field.name for field in fields])
    if volatile is not None:
        raise locate_offset(where).attach(
            InvalidValue(f'"{tokens.text(volatile)}" gives another value at every look', hint="use only what the row itself says")
        )
    expression = analyse_expression(where, statement.relation)
    if expression.relations:
        raise locate_offset(expression.relations[0].span).attach(
            InvalidValue("the condition of a sample reads another relation", hint="use only the columns of the relation itself")
        )
    name = new_name()
    rendered = expression.render({})
    frame = read_named(work, (relation.name.schema, relation.name.relation), snapshot)
    text = f"SELECT 1 FROM {name} AS {identifier(relation.name.relation)} WHERE ({rendered.text})"
    with place_spark_errors(rendered), work.session.job():
        _ = query_relations(work.session, text, {name: frame}).schema


def _weights(statement: s.CreateSample) -> dict[str, Any]:
    given = {option.name: option for option in statement.options}
    half_life, time = given.get("half_life"), given.get("time_column")
    if (half_life is None) != (time is None):
        said = 'option "half_life" needs the column that says when a row was' if time is None else 'option "time_column" needs a half_life'
        hint = "write WITH (half_life = '1 hour', time_column = 'created_at')"
        raise locate_offset((half_life or time or given["seed"]).span).attach(InvalidValue(said, hint=hint))
    seconds = half_life.value.total_seconds() if half_life is not None and isinstance(half_life.value, timedelta) else None
    if half_life is not None and seconds is not None and seconds < 1:
        raise locate_offset(half_life.span).attach(InvalidValue("a half-life is at least a second", hint="write '1 second' or more"))
    return {"weight": statement.weight, "half_life": seconds, "time": None if time is None else str(time.value)}


def _weighted(
    statement: s.CreateSample, relation: Table | View, definition: SampleDefinition
) -> tuple[tuple[Field, ...], SampleDefinition]:
    """The columns of a weighted sample, and its definition with columns called as they are."""
    with place_errors(statement.span):
        if isinstance(relation, View):
            raise InvalidValue(
                "a view has no weighted sample: its rows have no lasting numbers", hint="keep its rows in a table, and sample that"
            )
        if definition.is_windowed or definition.strata:
            what = "window" if definition.is_windowed else "strata"
            raise InvalidValue(f"a weighted sample has no {what}", hint="leave out one of the two")
        known = {field.name.lower(): field for field in relation.fields}
        if SAMPLE_WEIGHT in known:
            raise InvalidValue(f'"{relation.name}" has a column "{SAMPLE_WEIGHT}", as a weighted sample adds one', hint="rename it")
        found: dict[str, Any] = {}
        for role, column, fits in (("weight", definition.weight, is_sample_weight_type), ("time", definition.time, is_decay_time_type)):
            if column is None:
                continue
            field = known.get(column.lower())
            if field is None:
                hint = suggest_word(column, [field.name for field in relation.fields])
                raise UnknownObject(
                    f'column "{column}" does not exist in "{statement.relation}"', hint=hint or "DESCRIBE lists its columns"
                )
            if not fits(field.type):
                wanted = "a number" if role == "weight" else "a time"
                raise InvalidValue(f'column "{column}" has the type {type_text(field.type)}, which is no {role}', hint=f"use {wanted}")
            found[role] = field.name
        local_condition(relation, definition)
    return (*relation.fields, weight_field()), replace(definition, **found)


def _check_sizes(statement: s.CreateSample) -> None:
    for size in (statement.size, statement.size_per_stratum or 1):
        if not 1 <= size <= LARGEST:
            raise locate_offset(statement.span).attach(InvalidValue(f"a sample can't have {size} rows", hint=f"give 1 to {LARGEST}"))


def _seed(statement: s.CreateSample) -> int:
    given = next((option for option in statement.options if option.name == "seed"), None)
    return secrets.randbits(62) if given is None else int(str(given.value))


def _engine(statement: s.CreateSample) -> str | None:
    return next((str(option.value) for option in statement.options if option.name == ENGINE), None)


def _definition(statement: s.CreateSample, relation: Table | View, source: Source) -> SampleDefinition:
    given = {option.name: option for option in statement.options}
    _check_sizes(statement)
    window = None
    if "window" in given:
        window = parse_window(str(given["window"].value))
        if window is None or source != "stream":
            what = f"{given['window'].value!r} is not a window" if window is None else f"a {source} has no window"
            hint = "write '1 hour', '1000 rows' or 'retention'" if window is None else "only rows of a stream leave; leave it out"
            raise locate_offset(given["window"].span).attach(InvalidValue(what, hint=hint))
    return SampleDefinition(
        relation=str(relation.uuid),
        source=source,
        size=statement.size,
        seed=_seed(statement),
        where=None if statement.where is None else statement.where.text,
        strata=statement.strata,
        size_per_stratum=statement.size_per_stratum,
        **_weights(statement),
        window_rows=window if isinstance(window, int) else None,
        window_seconds=window.total_seconds() if isinstance(window, timedelta) else None,
        retained=window == "retention",
        has_ladders=source != "view",
        engine=_engine(statement),
    )
