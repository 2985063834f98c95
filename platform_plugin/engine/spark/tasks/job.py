"""`run_job`: one Spark job whose tasks run a program over its shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.engine.spark.tasks.sending import ANSWER_SCHEMA, make_function, read_answers, read_fingerprint
from platform_plugin.engine.spark.tasks.shipping import ship_package
from platform_plugin.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.spark.tasks.sending import TaskAnswer


def run_job(
    session: Session, program: bytes, shares: Sequence[bytes], *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> tuple[list[bytes], JobMetrics]:
    """The answers of the tasks in the order of their shares; the package is sent to executors that lack it, once for a session."""
    answers, metrics = _run(session, program, shares, timeout, progress)
    if any(answer.kind != "result" for answer in answers):
        ship_package(session)
        answers, metrics = _run(session, program, shares, timeout, progress)
    for answer in answers:
        if answer.kind != "result":
            raise ServerError(
                "an executor does not have this version of the package",
                detail=f"it has {answer.content.decode(errors='replace')}"
                if answer.kind == "other"
                else answer.content.decode(errors="replace"),
                hint="install the same version of platform-plugin, and its packages, in the Python of the executors",
            )
    return [answer.content for answer in sorted(answers)], metrics


def _run(
    session: Session, program: bytes, shares: Sequence[bytes], timeout: timedelta | None, progress: ProgressHandler | None
) -> tuple[list[TaskAnswer], JobMetrics]:
    count = len(shares)
    function = make_function(program, shares, read_fingerprint())
    frame = session.spark.range(0, count, 1, count).mapInArrow(function, ANSWER_SCHEMA)
    # Footers and figures are small.
    with session.arrow(frame, timeout=timeout, progress=progress, is_small=True) as stream:
        answers = [answer for batch in stream for answer in read_answers(batch)]
        return answers, stream.metrics()
