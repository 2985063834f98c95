"""`FileAccessOption`: who reads and writes files for Spark, as the lake's URL or the environment asks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, cast

from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

FileAccessOption = Literal["auto", "spark", "tasks"]
"""What a user may ask for; `auto` takes Spark's own readers and writers where Spark has the file system, and tasks in Python elsewhere."""
OPTIONS = ("auto", "spark", "tasks")
VARIABLE = "PLATFORM_FILE_ACCESS"


def read_file_access(*, url: str | None = None, environment: Mapping[str, str] = os.environ) -> FileAccessOption:
    """What the URL of a lake asks for, or else the environment.

    >>> read_file_access(environment={}), read_file_access(url="tasks", environment={"PLATFORM_FILE_ACCESS": "spark"})
    ('auto', 'tasks')
    """
    for name, shown in ((url, "option file_access of the lake URL"), (environment.get(VARIABLE) or None, VARIABLE)):
        if name is None:
            continue
        if name.lower() not in OPTIONS:
            raise InvalidValue(f'{shown} can\'t be "{name[:40]}"', hint=f"write {', '.join(OPTIONS[:-1])} or {OPTIONS[-1]}")
        return cast("FileAccessOption", name.lower())
    return "auto"
