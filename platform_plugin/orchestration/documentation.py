"""Documentation: the YAML file beside a model, which says what SQL has no words for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS = (".yml", ".yaml")


class Documentation(BaseModel):
    """What people should know about a relation. Every key is optional, an unknown one is refused.

    >>> Documentation.model_validate({"owners": ["team:growth"], "columns": {"id": "who it is"}}).columns
    {'id': 'who it is'}
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str | None = None
    owners: list[str] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)


def read_documentation(sql_file: Path, *, shown: str) -> Documentation:
    """The documentation beside an SQL file, empty if there is none."""
    found = next((path for ending in ENDINGS if (path := sql_file.with_suffix(ending)).is_file()), None)
    if found is None:
        return Documentation()
    name = shown.removesuffix(sql_file.suffix) + found.suffix
    try:
        content: Any = yaml.safe_load(found.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InvalidValue(
            f'file "{name}" is not YAML', detail=str(error), hint="write lines such as `description: who they are`"
        ) from error
    try:
        return Documentation.model_validate({} if content is None else content)
    except ValidationError as error:
        faults = "\n".join(f"{'.'.join(str(part) for part in fault['loc']) or 'the file'}: {fault['msg']}" for fault in error.errors())
        raise InvalidValue(
            f'file "{name}" does not document a relation', detail=faults, hint=f"its keys are {', '.join(Documentation.model_fields)}"
        ) from error
