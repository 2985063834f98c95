"""Errors of PySpark and gRPC as the platform's errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
from pyspark.errors import PySparkException

from platform_plugin.engine.spark.frames.stores import explain_missing_store
from platform_plugin.engine.spark.session.guard import TOO_LARGE
from platform_plugin.engine.spark.session.wording import reword
from platform_plugin.engine.spark.tasks.failure import find_failure
from platform_plugin.errors import PlatformError, QueryFailed, QueryInterrupted, ResultTooLarge, ServerError, ServerLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_LOST = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
_REFUSED = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
_ENDED = (
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "stopped SparkContext",
    "SESSION_NOT_FOUND",
    "SESSION_CLOSED",
    "SESSION_CHANGED",
)
_CANCELLED = ("OPERATION_CANCELED", "OPERATION_ABANDONED", "SPARK_JOB_CANCELLED", "cancelled job", "was cancelled", "Job group cancelled")
_FULL = ("No space left on device", "Disk quota exceeded")
_GRPC_NOISE = re.compile(r"^\([\w.]+\)\s*")


@contextmanager
def raise_platform_errors(explain_loss: Callable[[], ServerLost]) -> Iterator[None]:
    """Raise errors of the block as PlatformErrors; `explain_loss` makes the one for a server that is gone."""
    try:
        yield
    except PlatformError:
        raise
    except (PySparkException, grpc.RpcError, ValueError) as error:
        if isinstance(error, ValueError) and not isinstance(error, PySparkException) and "closed channel" not in str(error):
            raise
        raise explain_error(error, explain_loss) from error


def explain_error(error: Exception, explain_loss: Callable[[], ServerLost]) -> PlatformError:
    """Return the platform's error for an error of PySpark's or gRPC's."""
    code = _status(error)
    said = _said(error)
    if code in _REFUSED:
        return ServerError(
            "the Spark endpoint refuses this client's token",
            detail=_GRPC_NOISE.sub("", said),
            hint="use the token of the server that runs now",
        )
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if (condition or "").startswith("OPERATION_CANCELED") or any(mark in said for mark in _CANCELLED):
        return QueryInterrupted("query was interrupted", hint="run it again if it was not meant to stop")
    if code in _LOST or any(mark in said for mark in _ENDED) or "closed channel" in said:
        return explain_loss()
    # A task that fails while it writes says so, and why only in its causes.
    if any(mark in str(error) for mark in _FULL):
        return QueryFailed(
            "query failed because a disk is full",
            detail=said.splitlines()[0] if said else None,
            hint="free space in the scratch folder of the server and in the lake",
        )
    if TOO_LARGE in said or "spark.driver.maxResultSize" in said:
        return ResultTooLarge(
            "a result is too large for the server's memory",
            detail=None if TOO_LARGE in said else said,
            hint="write it into a table (CREATE TABLE … AS SELECT …), ask for less, or give the server more memory",
        )
    if (missing := explain_missing_store(said)) is not None:
        return missing
    if (failure := find_failure(str(error)) or find_failure(said)) is not None:
        return failure
    told = reword(said, condition)
    return QueryFailed(told.message, detail=told.detail, hint=told.hint)


def _status(error: Exception) -> grpc.StatusCode | None:
    if isinstance(error, grpc.RpcError) and hasattr(error, "code"):
        code = error.code()
        return code if isinstance(code, grpc.StatusCode) else None
    found = getattr(error, "getGrpcStatusCode", lambda: None)()
    return found if isinstance(found, grpc.StatusCode) else None


def _said(error: Exception) -> str:
    if isinstance(error, PySparkException):
        return (error.getMessage() or str(error)).split("\n\nJVM stacktrace:")[0].strip()
    if isinstance(error, grpc.RpcError) and hasattr(error, "details"):
        return str(error.details())
    return str(error)
