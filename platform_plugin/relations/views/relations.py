"""`describe_relations` and `QueryMeaning`: the relations in a view's query, now and when the view was created."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Scan, walk
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.plan.traversal import columns_in
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, UnknownObject
from platform_plugin.lake.catalogue.tables import Name, Table, View
from platform_plugin.lake.commit.dependents import Need
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.writing import type_text
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.views.record import note_meaning_text, read_meaning_text, read_records, result_fields

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.language.text.places import Span
    from platform_plugin.operators.group.parts import SplitPlan


def describe_relations(work: Workspace, query: str | Span, snapshot: Snapshot) -> dict[str, RelationFacts]:
    """The facts of every relation that a query or a plain view in it names, by each name that it may use."""
    lake = work.lake
    found: dict[str, RelationFacts] = {}
    with lake.reading() as connection:
        waiting: list[str | Span] = [query]
        while waiting:
            for reference in analyse_query(waiting.pop()).relations:
                key = ".".join(reference.name.parts).lower()
                if key in found:
                    continue
                with place_errors(reference.span):
                    relation = lake.find_relation(connection, lake_name(reference.name), snapshot)
                name = (relation.name.schema, relation.name.relation)
                if not isinstance(relation, View):
                    kind = find_kind(lake, relation, snapshot).planned_as
                    described = RelationFacts(name=name, kind=kind, fields=relation.fields)
                elif (record := read_records(connection, only=relation.uuid).get(relation.uuid)) is not None:
                    described = RelationFacts(name=name, kind="continuous", fields=result_fields(record))
                else:
                    # Of a renamed column only the name counts; its type is told by the query.
                    renamed = tuple(Field(name=column, type=Primitive("varchar")) for column in relation.columns)
                    described = RelationFacts(name=name, kind="view", fields=renamed, body=relation.sql)
                    waiting.append(relation.sql)
                found[key] = found[".".join(name).lower()] = described
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMeaning:
    """The meaning of a view's query: its relations at the view's creation, and the types that Spark inferred then.

    It is stored, so that later changes of relations do not give the query another meaning than that of its states.
    """

    relations: Mapping[str, RelationFacts]
    types: dict[str, tuple[DataType, ...]] = field(default_factory=dict)
    used: Mapping[tuple[str, ...], set[str]] = field(default_factory=dict)
    """The columns of each relation that the query mentions, when they are known."""


def note_meaning(commit: Commit, view: UUID, meaning: QueryMeaning) -> None:
    """Store the meaning of a new view's query."""
    shown = {
        key: {
            "name": found.name,
            "kind": found.kind,
            "fields": [[column.name, type_text(column.type), column.id] for column in found.fields],
            "body": found.body,
        }
        for key, found in meaning.relations.items()
    }
    types = {text: [type_text(kind) for kind in kinds] for text, kinds in meaning.types.items()}
    columns = [[name, sorted(names)] for name, names in meaning.used.items()]
    known = {"relations": shown, "types": types, "used": columns}
    note_meaning_text(commit, view, json.dumps(known))


def read_meaning(work: Workspace, view: UUID) -> QueryMeaning | None:
    """The stored meaning of a view's query."""
    with work.lake.reading() as connection:
        text = read_meaning_text(connection, view)
    if text is None:
        return None
    known = json.loads(text)
    relations = {
        key: RelationFacts(
            name=tuple(found["name"]),
            kind=found["kind"],
            fields=tuple(Field(name=name, type=parse_type(kind), id=number) for name, kind, number in found["fields"]),
            body=found["body"],
        )
        for key, found in known["relations"].items()
    }
    return QueryMeaning(
        relations=relations,
        types={text: tuple(map(parse_type, kinds)) for text, kinds in known["types"].items()},
        used={tuple(name): set(names) for name, names in known["used"]},
    )


def widen_relations(work: Workspace, meaning: QueryMeaning, snapshot: Snapshot) -> dict[str, RelationFacts]:
    """The relations of a view's query with their columns' present types; a column of a stream must be the same by id."""
    lake = work.lake
    found: dict[str, RelationFacts] = {}
    with lake.reading() as connection:
        for key, relation in meaning.relations.items():
            now: tuple[Field, ...] = ()
            if relation.kind != "view":
                try:
                    current = lake.find_relation(connection, Name.of((relation.name[0], relation.name[1])), snapshot)
                except UnknownObject:
                    current = None
                if isinstance(current, Table):
                    now = current.fields
                elif current is not None:
                    record = read_records(connection, only=current.uuid).get(current.uuid)
                    now = () if record is None else result_fields(record)
            known = {column.name: column for column in now}
            if relation.kind == "stream" and now:
                _refuse_others(relation, known, meaning.used.get(relation.name, set()))
            grown = (replace(column, type=known[column.name].type) if column.name in known else column for column in relation.fields)
            found[key] = replace(relation, fields=tuple(grown))
    return found


def _refuse_others(stream: RelationFacts, now: Mapping[str, Field], used: set[str]) -> None:
    """A column that a view uses has to be the one that it was made over: others have values that are not in its states."""
    for column in stream.fields:
        if column.name in used and (column.name not in now or now[column.name].id != column.id):
            called = next((other.name for other in now.values() if other.id == column.id), None)
            raise InvalidValue(
                f'column "{column.name}" of stream "{stream}" is not the one that the view was made over',
                detail="it is gone" if called is None else f"that one is called {called} now",
                hint="give the column its name back, or make the view anew with CREATE OR REPLACE VIEW",
            )


def find_needs(
    work: Workspace, plan: SplitPlan, used: Mapping[tuple[str, ...], set[str]], snapshot: Snapshot, *, refuses: bool, keeps_rows: bool
) -> tuple[Need, ...]:
    """What a view needs of the relations that it reads: the streams themselves, and relations that it reads again by name.

    A table that is only read at creation is not needed later; with `refuses` it may not change at all. A view that `keeps_rows` needs all
    columns of its streams.
    """
    below = set(plan.static_tables) if refuses else set()
    needs = []
    with work.lake.reading() as connection:
        for name in used:
            relation = work.lake.find_relation(connection, Name.of((name[0], name[1])), snapshot)
            written = ".".join(name)
            columns = tuple(sorted(used[name]))
            if written in plan.stream_names and isinstance(relation, Table):
                columns = tuple(column.name for column in relation.fields) if keeps_rows else columns
                needs.append(Need(relation=relation, columns=columns, itself=True))
            elif written in below:
                needs.append(Need(relation=relation, rows=True, itself=True))
            elif written in plan.upper_tables:
                needs.append(Need(relation=relation, columns=columns))
    return tuple(needs)


def used_columns(whole: Query) -> dict[tuple[str, ...], set[str]]:
    """The columns of each relation that a plan mentions."""
    mentioned = columns_in(whole)
    found: dict[tuple[str, ...], set[str]] = {}
    for node in walk(whole):
        if isinstance(node, Scan):
            names = {column.name for column in mentioned if column.alias == node.alias}
            found.setdefault(node.relation, set()).update(names & {output.name for output in node.fields if not output.hidden})
    return found
