"""`EngineOption`: the engine that a user asks for, of a run, of a relation or of the lake; the first of these that says it decides."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from platform_plugin.errors import InvalidValue
from platform_plugin.language.text.options import ENGINES
from platform_plugin.language.text.places import suggest_word

if TYPE_CHECKING:
    from collections.abc import Mapping

EngineName = Literal["auto", "local", "executors", "spark_sql"]
"""What a user may ask for; `auto` chooses for each run."""
VARIABLE = "PLATFORM_ENGINE"
ENGINE = "engine"
"""The name of the option."""


class EngineOption(NamedTuple):
    """The name of an engine, and who asks for it."""

    name: EngineName = "auto"
    set_by: str = "default"

    def __str__(self) -> str:
        return f"{self.name} ({self.set_by})"


def check_engine(name: str, shown: str = "engine") -> EngineName:
    """The name, if it is one of the four.

    >>> check_engine("Local")
    'local'
    """
    if name.lower() not in ENGINES:
        others = f"write {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
        raise InvalidValue(f'{shown} can\'t be "{name[:40]}"', hint="; ".join(filter(None, [suggest_word(name, ENGINES), others])))
    return cast("EngineName", name.lower())


def read_engine(option: str | None = None, *, url: str | None = None, environment: Mapping[str, str] = os.environ) -> EngineOption:
    """The engine of a lake: the caller's `option` before that of the `url`, and this before the environment's.

    >>> read_engine(url="executors", environment={"PLATFORM_ENGINE": "local"})
    EngineOption(name='executors', set_by='URL engine')
    """
    for name, set_by, shown in (
        (option, "option engine", "option engine"),
        (url, "URL engine", "option engine of the lake URL"),
        (environment.get(VARIABLE) or None, f"environment {VARIABLE}", VARIABLE),
    ):
        if name is not None:
            return EngineOption(check_engine(name, shown), set_by)
    return EngineOption()


def narrow_engine(lake: EngineOption, *, relation: str | None, run: str | None) -> EngineOption:
    """The engine of a relation in a run.

    >>> narrow_engine(EngineOption("local", "URL engine"), relation="executors", run=None)
    EngineOption(name='executors', set_by='option of the relation')
    """
    if run is not None:
        return EngineOption(check_engine(run), "option of the run")
    if relation is not None:
        return EngineOption(check_engine(relation), "option of the relation")
    return lake
