"""`log_progress`: Spark's progress in the log of a run, as a few lines and not one for every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.job import Progress, ProgressHandler

_FIRST_SECONDS = 1.0
_FACTOR = 1.6


def log_progress(log: Any) -> ProgressHandler:
    """A handler that logs a line when a job has run for a second, and then at growing intervals, since each line is an event of the run.

    >>> from platform_plugin.engine.spark.session.job import Progress
    >>> class Log:
    ...     def info(self, text, *values):
    ...         print(text % values)
    >>> tell = log_progress(Log())
    >>> for seconds in (0.2, 1.1, 1.2, 2.0):
    ...     tell(Progress(tasks=8, tasks_done=2, tasks_running=4, bytes_read=3_000_000, stages=1, seconds=seconds))
    Spark: 2 of 8 tasks done, 4 running, 3.0 MB read in 1.1 s
    Spark: 2 of 8 tasks done, 4 running, 3.0 MB read in 2.0 s
    """
    next_seconds = _FIRST_SECONDS
    last_seconds = 0.0

    def tell(seen: Progress) -> None:
        nonlocal next_seconds, last_seconds
        if seen.seconds < last_seconds:
            # Another job has begun.
            next_seconds = _FIRST_SECONDS
        last_seconds = seen.seconds
        if seen.seconds >= next_seconds:
            next_seconds = seen.seconds * _FACTOR
            megabytes = seen.bytes_read / 1_000_000
            log.info(
                "Spark: %d of %d tasks done, %d running, %.1f MB read in %.1f s",
                seen.tasks_done,
                seen.tasks,
                seen.tasks_running,
                megabytes,
                seen.seconds,
            )

    return tell
