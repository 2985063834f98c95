"""A sample's definition in a file, and its differences from the lake's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.language.statements.create_sample import CreateSample
from platform_plugin.language.text.comparing import normalise_statement
from platform_plugin.relations.bind.names import lake_name
from platform_plugin.relations.declarations import DeclaredRelation
from platform_plugin.relations.differences import difference_text, fold_names, option_differences
from platform_plugin.relations.samples.definition import parse_window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.language.statements.statement import Statement


def read_declared(statement: Statement) -> DeclaredRelation | None:
    """The definition in a CREATE SAMPLE; its columns are those of its relation."""
    if not isinstance(statement, CreateSample):
        return None
    return DeclaredRelation(name=statement.name, reads=statement.reads, like=statement.relation, takes_in=True)


def sample_differences(declared: Statement, stored: Statement) -> Iterator[str]:
    """The differences between a file's definition of a sample and the lake's."""
    if isinstance(declared, CreateSample) and isinstance(stored, CreateSample):
        yield from _sides(declared, stored)
        ours, theirs = _sample_options(declared), _sample_options(stored)
        # The lake chooses a seed where a file names none.
        ours.setdefault("seed", theirs.get("seed"))
        yield from option_differences(ours, theirs)


def _sides(declared: CreateSample, stored: CreateSample) -> Iterator[str]:
    conditions = (normalise_statement(each.where.text) if each.where is not None else None for each in (declared, stored))
    sides = {
        "relation": (_sampled(declared), _sampled(stored)),
        "size": (declared.size, stored.size),
        "condition": tuple(conditions),
        "weight": tuple(each.weight.lower() if each.weight is not None else None for each in (declared, stored)),
        "strata": (", ".join(fold_names(declared.strata)) or None, ", ".join(fold_names(stored.strata)) or None),
        "size of a stratum": (declared.size_per_stratum, stored.size_per_stratum),
    }
    for what, (ours, theirs) in sides.items():
        if ours != theirs:
            yield f"the {what} is {difference_text(ours)} in the file, {difference_text(theirs)} in the lake"


def _sampled(statement: CreateSample) -> str:
    """What a sample is of, in whatever case it is written."""
    names = ", ".join(str(lake_name(name)).lower() for name in statement.reads)
    return f"samples {names}" if statement.parts else names


def _sample_options(statement: CreateSample) -> dict[str, Any]:
    """The options of a sample, a window as what it comes to, and a column in whatever case it is written."""
    found = {option.name: option.value for option in statement.options}
    if "window" in found:
        found["window"] = parse_window(str(found["window"])) or found["window"]
    if "time_column" in found:
        found["time_column"] = str(found["time_column"]).lower()
    return found
