"""`encode_failure` and `find_failure`: an error of ours in a task, as text that passes through Spark, and as the same error here."""

from __future__ import annotations

import base64
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from platform_plugin import errors
from platform_plugin.errors import PlatformError, QueryFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARKED = re.compile(r"platform error ([A-Za-z0-9+/=]+)\.")


class TaskFailure(RuntimeError):
    """A failure of a task, of which Spark passes on the text."""


def encode_failure(error: PlatformError) -> str:
    """An error as text that no library on the way changes.

    >>> print(find_failure("Traceback …: " + encode_failure(errors.StorageError('file "a" is missing', hint="restore it"))))
    file "a" is missing
      hint: restore it
    """
    said = json.dumps([type(error).__name__, error.message, error.detail, error.hint])
    return f"platform error {base64.b64encode(said.encode()).decode()}. {error.message}"


def find_failure(text: str) -> PlatformError | None:
    """The error that a text of Spark's has from a task, if it has one."""
    found = _MARKED.search(text)
    if found is None:
        return None
    name, message, detail, hint = json.loads(base64.b64decode(found[1]))
    kind = getattr(errors, name, QueryFailed)
    error: PlatformError = kind.__new__(kind)
    # Some kinds are made of other things than these.
    PlatformError.__init__(error, message, detail=detail, hint=hint)
    return error


@contextmanager
def passing_failures() -> Iterator[None]:
    """Let errors of ours inside the block pass through Spark."""
    try:
        yield
    except PlatformError as error:
        raise TaskFailure(encode_failure(error)) from error
