"""Arguments: the values that a caller binds to parameters, checked and converted to plain Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from platform_plugin.errors import InvalidValue, MissingArgument, WrongArguments
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.places import locate_offset
from platform_plugin.language.text.values import Literal, Parameter

Arguments = Mapping[str, Any] | tuple[Any, ...]

_PLAIN = (bool, int, float, Decimal, date, time, timedelta, UUID)


def plain_value(value: Any, name: str) -> Any:
    """The plain Python value for a caller's value: NumPy's and Arrow's values become Python's own, views of bytes become bytes.

    >>> plain_value((1, bytearray(b"x")), ":a")
    [1, b'x']
    """
    # NumPy's own numbers are subclasses of Python's in part, so they are asked for first.
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return plain_value(value.astype("datetime64[us]").tolist() if value.dtype.kind == "M" else value.tolist(), name)
    if hasattr(value, "as_py"):
        return plain_value(value.as_py(), name)
    match value:
        case None:
            return None
        case str():
            return _text(value, name)
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case list() | tuple():
            return [plain_value(part, name) for part in value]
        case Mapping():
            return {plain_value(key, name): plain_value(part, name) for key, part in value.items()}
        case _ if isinstance(value, _PLAIN):
            return value
    raise InvalidValue(
        f'parameter "{name}" has a value of type {type(value).__name__}',
        hint="give numbers, texts, bytes, dates and times, UUIDs, lists or dicts of these, or None",
    )


def _text(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(f'parameter "{name}" is a text with half a character', detail=str(error), hint="decode it anew") from error
    return value


def plan_parameters(given: object) -> Arguments:
    """The caller's parameters as plain values: a dict by name or a sequence by place."""
    match given:
        case None:
            return ()
        case Mapping():
            if wrong := [name for name in given if not isinstance(name, str)]:
                raise WrongArguments(f"{wrong[0]!r} is no name of a parameter", hint="give a dict from names to values")
            return {name: plain_value(value, name) for name, value in given.items()}
        case str() | bytes() | bytearray() | memoryview():
            raise WrongArguments("parameters are one text", hint="give a list with a value for each ?, or a dict for :name")
        case Sequence():
            return tuple(plain_value(value, str(place)) for place, value in enumerate(given, start=1))
    raise WrongArguments(f"parameters are of type {type(given).__name__}", hint="give a list with a value for each ?, or a dict for :name")


def used_arguments(parameters: Sequence[Parameter], arguments: Arguments) -> Arguments:
    """Those of a statement's arguments that this query names."""
    if isinstance(arguments, Mapping):
        return {parameter.name: arguments[parameter.name] for parameter in parameters if parameter.name is not None}
    return arguments[: len(parameters)]


def cell_value(cell: object, arguments: Arguments) -> object:
    """The value of a statement's cell: the literal's, or the caller's for a parameter."""
    match cell:
        case Parameter():
            return argument(cell, arguments)
        case Literal(value=value):
            return value
        case _:
            return cell


def argument(parameter: Parameter, arguments: Arguments) -> Any:
    """The caller's value for a parameter; `check_arguments` has made sure that there is one."""
    if parameter.name is not None and isinstance(arguments, Mapping):
        return arguments[parameter.name]
    if parameter.index is not None and isinstance(arguments, tuple):
        return arguments[parameter.index]
    raise WrongArguments("named and positional parameters are mixed", hint="give a dict for :name and a list for ?")


def check_arguments(parameters: Sequence[Parameter], arguments: Arguments) -> None:
    """Refuse a statement whose parameters have no values, or values in the other form."""
    for parameter in parameters:
        if parameter.name is not None:
            if not isinstance(arguments, Mapping) or parameter.name not in arguments:
                hint = "give it in the dict of parameters"
                missing = MissingArgument(f'parameter ":{parameter.name}" has no value', hint=hint)
                missing.parameter = parameter.name
                raise locate_offset(parameter.span, 0, len(parameter.span.text)).attach(missing)
        elif not isinstance(arguments, tuple) or (parameter.index or 0) >= len(arguments):
            given = len(arguments) if isinstance(arguments, tuple) else 0
            missing = MissingArgument(
                f"parameter {(parameter.index or 0) + 1} has no value",
                detail=f"{given} were given",
                hint="give a list with a value for each ?",
            )
            raise locate_offset(parameter.span, 0, len(parameter.span.text)).attach(missing)


def plan_arguments(given: Mapping[str, Any] | Sequence[Any] | None, parameters: Sequence[Parameter]) -> Arguments:
    """The caller's arguments, checked against all parameters of a statement: none missing, none too many."""
    arguments: Arguments = plan_parameters(given)
    if not parameters and not arguments:
        return ()
    check_arguments(parameters, arguments)
    if isinstance(arguments, Mapping):
        unused = sorted(set(arguments) - {parameter.name for parameter in parameters})
        if unused:
            raise WrongArguments(f'the statement has no parameter ":{unused[0]}"', hint="leave it out, or check its spelling")
    elif len(arguments) > len(parameters):
        raise WrongArguments(
            f"the statement has {count_text(len(parameters), 'parameter')}, {count_text(len(arguments), 'value was', 'values were')} given",
            hint="give one for each ?",
        )
    return arguments
