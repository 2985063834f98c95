"""`read_faults`: the errors in a YAML file's keys, each with its line and the nearest known key or value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from platform_plugin.language.text.places import suggest_word
from platform_plugin.quality.yaml_lines import find_yaml_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pydantic import ValidationError

_VALUE = re.compile(r"'([^']*)'")


def read_faults(error: ValidationError, text: str, keys: Collection[str]) -> tuple[str, str]:
    """Each error of a file on a line of its own, and a hint: the nearest key or value, else the known keys.

    The nearest words of several errors stand on their lines.
    """
    told: list[str] = []
    hints: list[str] = []
    several = error.error_count() > 1
    for fault in error.errors():
        place = [str(part) for part in fault["loc"]]
        line = find_yaml_line(text, fault["loc"])
        said, hint = _fault(fault, place, keys)
        told.append((f"line {line}: {said}" if line else said) + (f"; {hint}" if hint and several else ""))
        hints += [hint] if hint else []
    if several and len(hints) == len(told):
        return "\n".join(told), "correct each of them"
    return "\n".join(told), hints[0] if hints and not several else f"its keys are {', '.join(keys)}"


def _fault(fault: Any, place: Sequence[str], keys: Collection[str]) -> tuple[str, str | None]:
    where = ".".join(place) or "the file"
    match fault["type"]:
        case "extra_forbidden":
            return f'"{where}" is not one of its keys', suggest_word(where, keys) if len(place) == 1 else None
        case "literal_error":
            expected = fault["ctx"]["expected"]
            return f'{where}: "{fault["input"]}" is not {expected}', suggest_word(str(fault["input"]), _VALUE.findall(expected))
        case "missing":
            return f"{where} is missing", None
        case _:
            said = fault["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
            return f"{where}: {said}", None
