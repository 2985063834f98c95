"""`run_job`: one Spark job whose tasks run programs over their shares."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from platform_plugin.engine.spark.tasks.sending import (
    ANSWER_SCHEMA,
    SentShare,
    make_function,
    make_merge_function,
    make_rows_function,
    pack,
    read_answers,
    read_fingerprint,
)
from platform_plugin.engine.spark.tasks.shipping import ship_package
from platform_plugin.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.spark.tasks.sending import MergingProgram, Program, RowsProgram, TaskAnswer


# With adaptive execution each shuffle of each part would be a Spark job of its own.
_SINGLE_JOB = {"spark.sql.adaptive.enabled": "false"}


class JobPart(NamedTuple):
    """A program, and the shares of its input, each for one task of a job."""

    program: Program
    shares: Sequence[Any]


class MergedPart(NamedTuple):
    """A program, and the shares of its input; one more task of the job merges the answers for them, which are one answer then."""

    program: MergingProgram
    shares: Sequence[Any]


class RowsPart(NamedTuple):
    """Rows that Spark computes, and the program that the tasks which have them run over them."""

    frame: DataFrame
    program: RowsProgram


class JobResult(NamedTuple):
    """What a job gave, its cost, and the bytes that came to the client.

    `answers` are for each part what the program gave for each share, or for all together where they are merged, and for rows what it gave
    in each task that had some.
    """

    answers: list[list[Any]]
    metrics: JobMetrics
    client_bytes: int


def run_job(
    session: Session,
    parts: Sequence[JobPart | MergedPart],
    rows: Sequence[RowsPart] = (),
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> JobResult:
    """Run all parts as one job, also where they shuffle; the package is sent to executors that lack it, once for a session."""
    shuffles = bool(rows) or any(isinstance(part, MergedPart) for part in parts)

    def run() -> tuple[list[TaskAnswer], JobMetrics]:
        # Footers and figures are small.
        with session.arrow(_frame(session, parts, rows), timeout=timeout, progress=progress, is_small=True) as stream:
            return [answer for batch in stream for answer in read_answers(batch)], stream.metrics()

    with session.use_settings(_SINGLE_JOB) if shuffles else nullcontext():
        answers, metrics = run()
        if any(answer.kind != "result" for answer in answers):
            ship_package(session)
            answers, metrics = run()
    found: list[list[Any]] = [[] for _ in (*parts, *rows)]
    for answer in sorted(answers):
        if answer.kind != "result":
            said = answer.content.decode(errors="replace")
            raise ServerError(
                "an executor does not have this version of the package",
                detail=f"it has {said}" if answer.kind == "other" else said,
                hint="install the same version of platform-plugin, and its packages, in the Python of the executors",
            )
        found[answer.part].append(pickle.loads(answer.content))  # noqa: S301  what our own tasks sent
    return JobResult(found, metrics, sum(len(answer.content) for answer in answers))


def _frame(session: Session, parts: Sequence[JobPart | MergedPart], rows: Sequence[RowsPart]) -> DataFrame:
    """The one query of a job, whose rows are the answers of its tasks."""
    fingerprint = read_fingerprint()
    programs = [pack(part.program) for part in parts]
    shares = [[SentShare(number, pack(share)) for share in part.shares] for number, part in enumerate(parts)]

    def run(shares: Sequence[SentShare]) -> DataFrame:
        function = make_function(programs, shares, fingerprint)
        return session.spark.range(0, len(shares), 1, len(shares)).mapInArrow(function, ANSWER_SCHEMA)

    merged = [number for number, part in enumerate(parts) if isinstance(part, MergedPart) and part.shares]
    plain = [share for number, own in enumerate(shares) if number not in merged for share in own]
    frames = [run(plain)] if plain else []
    for number in merged:
        merge = make_merge_function(programs[number], number, fingerprint)
        frames.append(run(shares[number]).repartition(1).mapInArrow(merge, ANSWER_SCHEMA))
    for number, part in enumerate(rows, start=len(parts)):
        frames.append(part.frame.mapInArrow(make_rows_function(pack(part.program), number, fingerprint), ANSWER_SCHEMA))
    return reduce(lambda whole, frame: whole.unionAll(frame), frames)


class _Presence:
    """A program that does nothing."""

    def run(self, share: None) -> None:
        """Nothing."""


def require_package(session: Session) -> None:
    """See to it that the executors have this version of the package; a session asks once."""
    if not session.has_package:
        run_job(session, [JobPart(_Presence(), [None])])
        session.has_package = True
