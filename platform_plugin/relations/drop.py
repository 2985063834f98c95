"""DROP: ends relations of every kind in a commit, or refuses where others depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.lake.commit.passes import ForgetPasses
from platform_plugin.language.text.places import locate_offset
from platform_plugin.relations import hooks
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.target import find_existing, find_target, refuse_protected, statement_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.language import statements as s
    from platform_plugin.relations.hooks import DropBlocker
    from platform_plugin.relations.result import Result


def run_drop(work: Workspace, statement: s.Drop) -> Result:
    """Drop a relation or a schema; with CASCADE a schema's relations are dropped too."""
    lake, base = work.lake, work.lake.snapshot()
    if statement.kind == "SCHEMA":
        return _drop_schema(work, statement, base)
    name = lake_name(statement.name)
    relation = find_existing(lake, name, base)
    if relation is None:
        if statement.if_exists:
            return statement_result(base, f"{statement.kind.lower()} {name} does not exist")
        find_target(lake, statement.name, base)
        raise AssertionError  # unreachable: what does not exist is no target
    actual = find_kind(lake, relation, base).name
    if actual != statement.kind.lower():
        raise locate_offset(statement.name.span).attach(
            InvalidValue(f'"{name}" is a {actual}, not a {statement.kind.lower()}', hint=f"write DROP {actual.upper()}")
        )
    if isinstance(relation, Table):
        with place_errors(statement.name.span):
            _refuse_blocked(actual, relation, hooks.find_blockers(work, relation, actual, base), cascade=statement.cascade)
    with place_errors(statement.name.span), lake.commit(f"drop {actual} {name}", base=base) as commit:
        drop_relation(work, commit, relation, base, alone=True)
    return statement_result(commit.made, f"{actual} {name} dropped")


def _beyond(schema: str, blockers: Sequence[DropBlocker]) -> list[DropBlocker]:
    """The blockers that a schema does not take with it."""
    others = [blocker._replace(names=tuple(each for each in blocker.names if not each.startswith(f"{schema}."))) for blocker in blockers]
    return [blocker for blocker in others if blocker.names]


def _refuse_blocked(kind: str, table: Table, blockers: Sequence[DropBlocker], *, cascade: bool = False) -> None:
    """Refuse to drop a table that others need, and name all of them at once."""
    if not blockers:
        return
    needs = " and ".join(f"{blocker.need} {', '.join(blocker.names)}" for blocker in blockers)
    statements = "; ".join(f"{blocker.statement} {name}" for blocker in blockers for name in blocker.names)
    alone = ". CASCADE is for schemas" if cascade else ""
    raise InvalidValue(f'{kind} "{table.name}" is {needs}', hint=f"drop first: {statements}{alone}")


def _drop_schema(work: Workspace, statement: s.Drop, base: Snapshot) -> Result:
    name = statement.name.relation
    if name not in work.lake.schemas(base) and statement.if_exists:
        return statement_result(base, f"schema {name} does not exist")
    dropped: list[str] = []
    with place_errors(statement.name.span), work.lake.commit(f"drop schema {name}", base=base) as commit:
        if statement.cascade:
            relations: list[Table | View] = [*work.lake.tables(base), *work.lake.views(base)]
            for relation in relations:
                # Parts go with the view or sample that they belong to.
                if relation.name.schema == name and not (kind := find_kind(work.lake, relation, base)).is_hidden:
                    if isinstance(relation, Table):
                        _refuse_blocked(kind.name, relation, _beyond(name, hooks.find_blockers(work, relation, kind.name, base)))
                    dropped.append(f"{kind.name} {relation.name}")
                    drop_relation(work, commit, relation, base)
        commit.drop_schema(name)
    others = f", and with it {', '.join(sorted(dropped))}" if dropped else ""
    return statement_result(commit.made, f"schema {name} dropped{others}")


def drop_relation(work: Workspace, commit: Commit, relation: Table | View, snapshot: Snapshot, *, alone: bool = False) -> None:
    """Drop a relation in a commit, with all that its kind stores for it; `alone` if a statement names it."""
    if isinstance(relation, Table):
        refuse_protected(work.lake, relation)
    find_kind(work.lake, relation, snapshot).drop(work, commit, relation, snapshot, alone=alone)
    if alone:
        commit.also(ForgetPasses(relation.name))


def drop_replaced(work: Workspace, commit: Commit, old: Table | View | None) -> None:
    """Drop the relation whose name a relation of the same commit takes."""
    if old is not None:
        drop_relation(work, commit, old, commit.base)
