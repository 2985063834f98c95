"""Running the statements of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import CommitConflict, InvalidValue
from platform_plugin.lake.catalogue.relations import RELATION, Declaration, declare_relation
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.kinds import kind_name
from platform_plugin.relations.result import Result
from platform_plugin.relations.target import find_existing, find_target, statement_result
from tests.relations.sequences.record import SEQUENCE, read_next

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from tests.relations.sequences.statements import CreateSequence, NextValue

_ATTEMPTS = 10
_COLUMNS = (Field(name="next_value", type=Primitive("int64")),)


def run_create_sequence(work: Workspace, statement: CreateSequence) -> Result:
    """Create a sequence: a table without files, and its first number."""
    lake, base, name = work.lake, work.lake.snapshot(), lake_name(statement.name)
    if statement.if_not_exists and find_existing(lake, name, base) is not None:
        return statement_result(base, f"sequence {name} exists already")
    lake.prepare_tables([RELATION, SEQUENCE])
    with place_errors(statement.name.span), lake.commit(f"create sequence {name}", base=base) as commit:
        table = commit.create_table(name, _COLUMNS)
        declare_relation(commit, table, Declaration(kind="sequence", options={"start": statement.start}))
        commit.put(SEQUENCE, expected=None, relation_uuid=str(table.uuid), next_value=statement.start)
    return statement_result(commit.made, f"sequence {name} created")


def run_next_value(work: Workspace, statement: NextValue) -> Result:
    """Take a number; whoever loses a race for it takes the one after."""
    lake = work.lake
    for _ in range(_ATTEMPTS):
        base = lake.snapshot()
        table = find_target(lake, statement.name, base)
        with place_errors(statement.name.span):
            if kind_name(lake, table, base) != "sequence":
                raise InvalidValue(f'"{table.name}" is not a sequence', hint="SHOW SEQUENCES lists them")
        value = read_next(lake, table.uuid)
        try:
            with lake.commit(f"next value of {table.name}", base=base) as commit:
                commit.put(SEQUENCE, expected={"next_value": value}, relation_uuid=str(table.uuid), next_value=value + 1)
        except CommitConflict:
            continue
        return Result(pa.table({"value": pa.array([value], pa.int64())}), snapshot=commit.made)
    raise CommitConflict(f'sequence "{table.name}" is asked for too many numbers at once', hint="try again")
