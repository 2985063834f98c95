"""Keys of a YAML file: what is wrong with one, told with its line and with the key or value that may have been meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from platform_plugin.language.text.places import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pydantic import ValidationError

_VALUE = re.compile(r"'([^']*)'")


def read_faults(error: ValidationError, text: str, keys: Collection[str]) -> tuple[str, str]:
    """Each fault of a file in a line of its own, and what to do: the key or value that was meant, else the keys there are."""
    told, hints = [], []
    for fault in error.errors():
        place = [str(part) for part in fault["loc"]]
        line = _line(text, fault["loc"])
        said, hint = _fault(fault, place, keys)
        told.append(f"line {line}: {said}" if line else said)
        hints += [hint] if hint else []
    return "\n".join(told), "; ".join(dict.fromkeys(hints)) or f"its keys are {', '.join(keys)}"


def _fault(fault: Any, place: Sequence[str], keys: Collection[str]) -> tuple[str, str | None]:
    where = ".".join(place) or "the file"
    match fault["type"]:
        case "extra_forbidden":
            return f'"{where}" is not one of its keys', did_you_mean(where, keys) if len(place) == 1 else None
        case "literal_error":
            expected = fault["ctx"]["expected"]
            return f'{where}: "{fault["input"]}" is not {expected}', did_you_mean(str(fault["input"]), _VALUE.findall(expected))
        case "missing":
            return f"{where} is missing", None
        case _:
            said = fault["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
            return f"{where}: {said}", None


def _line(text: str, place: Sequence[str | int]) -> int | None:
    """The line of a key or of an entry of a list; of the nearest one around it where that is not in the file."""
    try:
        node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    line = None
    for part in place:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                continue
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
