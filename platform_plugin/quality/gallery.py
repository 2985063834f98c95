"""`check_gallery`: refuses expectations that Great Expectations does not have, and arguments that they do not take.

The names are read from the files of the installed package. To import it takes seconds, and code that declares a suite is loaded often.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import InvalidValue
from platform_plugin.language.text.places import suggest_word
from platform_plugin.quality.yaml_lines import find_yaml_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.quality.suite import Suite

_PACKAGE = "great_expectations"
_IMPORTED = re.compile(r"^from \.(\w+) import", re.MULTILINE)
# What schemas say of an expectation, and what is no argument of it.
_NO_ARGUMENTS = ("metadata",)


def has_gallery() -> bool:
    """Whether Great Expectations is installed, so that suites can be checked when they are read."""
    return bool(_list_types())


def check_gallery(suite: Suite, *, file: str, text: str) -> None:
    """Refuse a suite with an unknown expectation or argument; `text` is the file's. Without Great Expectations nothing is checked."""
    types = _list_types()
    if not types:
        return
    for index, each in enumerate(suite.expectations):
        if each.type not in types:
            if _is_registered(each.type):
                continue
            hint = suggest_word(each.type, types) or "Great Expectations has those of its gallery, and those of classes imported before"
            raise InvalidValue(f'{_place(file, text, index, "type")}: there is no expectation "{each.type}"', hint=hint)
        schema = _read_schema(types[each.type])
        if schema is None:
            continue
        arguments = [name for name in schema["properties"] if name not in _NO_ARGUMENTS]
        for name in each.kwargs:
            if name not in arguments:
                common = _common_arguments(types)
                own = [argument for argument in arguments if argument not in common]
                raise InvalidValue(
                    f'{_place(file, text, index, "kwargs", name)}: "{each.type}" has no argument "{name}"',
                    hint=suggest_word(name, own) or f"its arguments are {', '.join(own)}",
                )
        missing = [name for name in schema.get("required", ()) if name not in each.kwargs]
        if missing:
            where = _place(file, text, index, "kwargs")
            raise InvalidValue(f'{where}: "{each.type}" has no "{missing[0]}"', hint=f"write `{missing[0]}:` into its `kwargs`")


def _list_types() -> dict[str, Path]:
    """The types of expectations, each with the file of its schema, which some have not."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return {}
    core = Path(found.submodule_search_locations[0], "expectations", "core")
    try:
        names = _IMPORTED.findall((core / "__init__.py").read_text(encoding="utf-8"))
    except OSError:
        return {}
    schemas = {path.stem.lower(): path for path in (core / "schemas").glob("*.json")}
    return {name: schemas.get(name.replace("_", ""), core / "none") for name in names}


def _read_schema(path: Path) -> dict[str, Any] | None:
    """The JSON schema of an expectation; None if there is none."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return schema if isinstance(schema, dict) and isinstance(schema.get("properties"), dict) else None


def _common_arguments(types: Mapping[str, Path]) -> frozenset[str]:
    """What every expectation takes, whatever it is about."""
    return frozenset.intersection(
        *(frozenset(schema["properties"]) for path in types.values() if (schema := _read_schema(path)) is not None)
    )


def _is_registered(kind: str) -> bool:
    """Whether a class that was imported before defines the expectation."""
    if _PACKAGE not in sys.modules:
        return False
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    return kind in list_registered_expectation_implementations()


def _place(file: str, text: str, index: int, *keys: str) -> str:
    line = find_yaml_line(text, ("expectations", index, *keys))
    return f'file "{file}"' if line is None else f'file "{file}": line {line}'
