"""`RepeatedWork`: a loop that repeats work until it is stopped, with growing pauses while it fails."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from platform_plugin.errors import PlatformError, ServerLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.engine.workspace import Workspace

Outcome = TypeVar("Outcome")

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0


def pause_after(failures: int) -> float:
    """The seconds to wait after a number of failures in a row.

    >>> [pause_after(failures) for failures in (1, 2, 3, 20)]
    [1.0, 2.0, 4.0, 60.0]
    """
    return min(_FIRST_PAUSE_SECONDS * float(2 ** (min(failures, 10) - 1)), _LONGEST_PAUSE_SECONDS)


class RepeatedWork:
    """Repeats work of a workspace; `stop` may be called from any thread, and the attempt under way is finished."""

    def __init__(self, work: Workspace) -> None:
        self._work = work
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Start no further attempt."""
        self._stopping.set()

    def run(
        self,
        attempt: Callable[[], Outcome],
        succeeded: Callable[[Outcome], float | None],
        failed: Callable[[PlatformError, float], None],
        *,
        fatal: type[PlatformError] | tuple[type[PlatformError], ...] = (),
    ) -> None:
        """Repeat `attempt` until `succeeded` returns None instead of a pause in seconds.

        Errors of the classes `fatal` are raised; others are passed to `failed`, with the pause that follows.
        """
        failures = 0
        while not self._stopping.is_set():
            try:
                outcome = attempt()
            except PlatformError as error:
                if isinstance(error, ServerLost):
                    self._work.forget_session()
                if isinstance(error, fatal):
                    raise
                failures += 1
                failed(error, pause_after(failures))
                self._stopping.wait(pause_after(failures))
                continue
            failures = 0
            pause = succeeded(outcome)
            if pause is None:
                return
            self._stopping.wait(pause)
