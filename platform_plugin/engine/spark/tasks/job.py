"""`run_job`: one Spark job whose tasks run programs over their shares."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, NamedTuple

from platform_plugin.engine.spark.tasks.sending import ANSWER_SCHEMA, SentShare, make_function, pack, read_answers, read_fingerprint
from platform_plugin.engine.spark.tasks.shipping import ship_package
from platform_plugin.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.spark.tasks.sending import Program, TaskAnswer


class JobPart(NamedTuple):
    """A program, and the shares of its input, each for one task of a job."""

    program: Program
    shares: Sequence[Any]


class JobResult(NamedTuple):
    """What a job gave: for each of its parts what the program gave for each share, its cost, and the bytes that came to the client."""

    answers: list[list[Any]]
    metrics: JobMetrics
    client_bytes: int


def run_job(
    session: Session, parts: Sequence[JobPart], *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> JobResult:
    """Run all parts as one job; the package is sent to executors that lack it, once for a session."""
    programs = [pack(part.program) for part in parts]
    shares = [SentShare(number, pack(share)) for number, part in enumerate(parts) for share in part.shares]
    answers, metrics = _run(session, programs, shares, timeout=timeout, progress=progress)
    if any(answer.kind != "result" for answer in answers):
        ship_package(session)
        answers, metrics = _run(session, programs, shares, timeout=timeout, progress=progress)
    for answer in answers:
        if answer.kind != "result":
            said = answer.content.decode(errors="replace")
            raise ServerError(
                "an executor does not have this version of the package",
                detail=f"it has {said}" if answer.kind == "other" else said,
                hint="install the same version of platform-plugin, and its packages, in the Python of the executors",
            )
    found: list[list[Any]] = [[] for _ in parts]
    for answer, (number, _) in zip(sorted(answers), shares, strict=True):
        found[number].append(pickle.loads(answer.content))  # noqa: S301  what our own tasks sent
    return JobResult(found, metrics, sum(len(answer.content) for answer in answers))


def _run(
    session: Session, programs: Sequence[bytes], shares: Sequence[SentShare], *, timeout: timedelta | None, progress: ProgressHandler | None
) -> tuple[list[TaskAnswer], JobMetrics]:
    count = len(shares)
    function = make_function(programs, shares, read_fingerprint())
    frame = session.spark.range(0, count, 1, count).mapInArrow(function, ANSWER_SCHEMA)
    # Footers and figures are small.
    with session.arrow(frame, timeout=timeout, progress=progress, is_small=True) as stream:
        answers = [answer for batch in stream for answer in read_answers(batch)]
        return answers, stream.metrics()
