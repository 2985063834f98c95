"""`Documentation`: the YAML file beside a model, with its description, owners, checks, partitions and suite."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator

from platform_plugin.errors import InvalidValue, UnknownObject
from platform_plugin.orchestration.components.keys import read_faults
from platform_plugin.quality.gallery import check_gallery
from platform_plugin.quality.suite import parse_suite

if TYPE_CHECKING:
    from platform_plugin.quality.suite import Suite

ENDINGS = (".yml", ".yaml")
SUITE_ENDINGS = (".expectations.yml", ".expectations.yaml", ".expectations.json")
ON_CHANGE = "on_change"
Check = Literal["within_lag", "reconciles", "schema_stable", "no_quarantine"]


class DayPartitions(BaseModel):
    """The partitions of a table that a query builds day by day: the column with the day, and the first day."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str
    start: date


class RowPartitions(BaseModel):
    """The partitions of a table that a query builds so many rows of a stream at a time, and the column with the row's number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str
    rows: int = Field(gt=0)


def _kind_of(said: Any) -> str:
    return "rows" if isinstance(said, RowPartitions) or (isinstance(said, dict) and "rows" in said) else "days"


Partitions = Annotated[Annotated[DayPartitions, Tag("days")] | Annotated[RowPartitions, Tag("rows")], Discriminator(_kind_of)]


class Documentation(BaseModel):
    """The content of the YAML file beside a model. Every key is optional, an unknown one is refused.

    >>> Documentation.model_validate({"owners": ["team:growth"], "columns": {"id": "who it is"}}).columns
    {'id': 'who it is'}
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str | None = None
    owners: list[str] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    checks: list[Check] = Field(default_factory=list)
    partitions: Partitions | None = None
    rebuild: str | None = None
    """When a table of a query is built again automatically: `on_change`, or a cron expression."""
    suite: str | None = None
    """The file of its suite of expectations, relative to this file's folder; by default the one beside the model."""

    @field_validator("rebuild")
    @classmethod
    def _check_rebuild(cls, said: str | None) -> str | None:
        if said is not None and said != ON_CHANGE and len(said.split()) != 5:
            message = f'"{said}" is neither {ON_CHANGE} nor a cron expression of five parts'
            raise ValueError(message)
        return said


def read_documentation(sql_file: Path, *, shown: str) -> Documentation:
    """The documentation beside an SQL file, empty if there is none."""
    found = next((path for ending in ENDINGS if (path := sql_file.with_suffix(ending)).is_file()), None)
    if found is None:
        return Documentation()
    name = shown.removesuffix(sql_file.suffix) + found.suffix
    content = _read_yaml(found, name, "write lines such as `description: who they are`")
    try:
        return Documentation.model_validate({} if content is None else content)
    except ValidationError as error:
        faults, hint = read_faults(error, found.read_text(encoding="utf-8"), Documentation.model_fields)
        # What pydantic says to it would stand last, a screen below the place in the file.
        raise InvalidValue(f'file "{name}" does not document a relation', detail=faults, hint=hint) from None


def read_suite(sql_file: Path, *, shown: str, named: str | None = None) -> Suite | None:
    """The suite of expectations that is named, or else the one beside an SQL file, as YAML or as Great Expectations' JSON.

    None if there is none.
    """
    if named is None:
        found = next((path for ending in SUITE_ENDINGS if (path := sql_file.with_suffix(ending)).is_file()), None)
    else:
        found = sql_file.parent / named
        if not found.is_file():
            hint = "name a file with `expectations:`, seen from the folder of the one that names it"
            raise UnknownObject(f'suite "{named}" of "{shown}" does not exist', hint=hint)
    if found is None:
        return None
    name = named or str(Path(shown).with_name(found.name))
    # JSON is YAML.
    suite = parse_suite(_read_yaml(found, name, "write `expectations:` and a list below it"), file=name)
    check_gallery(suite, file=name, text=found.read_text(encoding="utf-8"))
    seen = os.path.relpath(found)
    return suite if seen.startswith(os.pardir) else replace(suite, path=seen)


def _read_yaml(path: Path, shown: str, hint: str) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InvalidValue(f'file "{shown}" is not YAML', detail=str(error), hint=hint) from error
