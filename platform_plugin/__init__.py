"""A Dagster plugin that turns a folder of SQL files into a living data platform on Spark.

The public names are loaded on first use, so that `import platform_plugin` costs milliseconds and loads no engine.

>>> import platform_plugin
>>> platform_plugin.PlatformError.__module__
'platform_plugin.errors'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platform_plugin.errors import PlatformError as PlatformError
    from platform_plugin.lake.lake import Lake as Lake

__version__ = "0.1.0"

_MODULES = {
    "Lake": "platform_plugin.lake.lake",
    "Platform": "platform_plugin.platform",
    "PlatformError": "platform_plugin.errors",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
