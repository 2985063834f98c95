"""`make_function`: the function that a job's tasks run, made so that a machine without this package can say so, and what they answer."""

from __future__ import annotations

import pickle
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

PACKAGE = "platform_plugin"
ANSWER_SCHEMA = "task BIGINT, part BIGINT, kind STRING, content BINARY"

Kind = Literal["result", "missing", "other"]


class TaskAnswer(NamedTuple):
    """What a task answered: its result by pickle, or how its machine has the package: not at all, or in another version."""

    part: int
    task: int
    kind: Kind
    content: bytes


@cache
def read_fingerprint() -> str:
    """A checksum of the package's modules: two processes with the same one run the same code, whatever a version says."""
    folder = Path(__file__).parents[3]
    archive = folder.parent
    if archive.is_file():
        with zipfile.ZipFile(archive) as file:
            sums = {info.filename.partition("/")[2]: info.CRC for info in file.infolist() if info.filename.endswith(".py")}
    else:
        sums = {path.relative_to(folder).as_posix(): zlib.crc32(path.read_bytes()) for path in folder.rglob("*.py")}
    return f"{zlib.crc32(repr(sorted(sums.items())).encode()):08x}"


class Program(Protocol):
    """What tasks run: each over a share of its input. Programs, shares and answers travel by pickle."""

    def run(self, share: Any) -> Any:
        """What the program gives for a share, in the process that was sent both."""


class MergingProgram(Program, Protocol):
    """A program whose answers meet in one more task of the job, so that only what it makes of them comes to the client."""

    def merge(self, answers: Sequence[Any]) -> Any:
        """One answer from those for all shares, in their order."""


class SentShare(NamedTuple):
    """A share, and the number of its program among those of the job."""

    program: int
    share: bytes


class RowsProgram(Protocol):
    """What a task runs over the rows that Spark has computed there."""

    def run_rows(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """What the program gives for the rows of a task, in the process that was sent it."""


class BatchesProgram(Protocol):
    """What a task runs whose rows go on into a query."""

    def read(self, share: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a share, in the process that was sent both."""


def make_function(programs: Sequence[bytes], shares: Sequence[SentShare], fingerprint: str) -> Callable[[Any], Any]:
    """The function for `mapInArrow` over the numbers of shares.

    It imports nothing before it runs, and is sent as code; everything else is sent as bytes that only the package can read.
    """
    # A named tuple would be sent as one of the package.
    work = [(number, programs[number], share) for number, share in shares]
    call = _make_call(fingerprint)

    def run(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            for task in batch.column(0).to_pylist():
                part, program, share = work[task]
                kind, content = call("run_sent", program, share)
                yield pa.RecordBatch.from_pydict({"task": [task], "part": [part], "kind": [kind], "content": [content]})

    return run


def make_merge_function(program: bytes, part: int, fingerprint: str) -> Callable[[Any], Any]:
    """The function for `mapInArrow` over the answers for all shares of a part, which makes them one; it is sent as the other one."""
    call = _make_call(fingerprint)

    def run(batches: Any) -> Any:
        import pyarrow as pa

        answers = sorted((row["task"], row["kind"], row["content"]) for batch in batches for row in batch.to_pylist())
        if not answers:
            return
        wrong = [answer for answer in answers if answer[1] != "result"]
        if wrong:
            _, kind, content = wrong[0]
        else:
            kind, content = call("merge_sent", program, [answer[2] for answer in answers])
        yield pa.RecordBatch.from_pydict({"task": [answers[0][0]], "part": [part], "kind": [kind], "content": [content]})

    return run


def make_rows_function(program: bytes, part: int, fingerprint: str) -> Callable[[Any], Any]:
    """The function for `mapInArrow` over the rows of a part of a job; it is sent as the other one."""
    call = _make_call(fingerprint)

    def run(batches: Any) -> Any:
        import pyarrow as pa

        kind, content = call("run_rows_sent", program, batches)
        # Spark waits until all rows are read.
        for _ in batches:
            pass
        # Where there were no rows is nothing to tell.
        if content:
            yield pa.RecordBatch.from_pydict({"task": pa.array([-1], pa.int64()), "part": [part], "kind": [kind], "content": [content]})

    return run


def make_read_function(program: bytes, shares: Sequence[bytes], step: int, fingerprint: str) -> Callable[[Any], Any]:
    """The function for `mapInArrow` over the numbers of shares, each `step` times as large, whose rows are those of the shares."""
    start = _make_start(fingerprint)

    def run(batches: Any) -> Any:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                kind, content, module = start()
                if module is None:
                    message = f"an executor does not have this version of the package: {kind}, {content.decode(errors='replace')}"
                    raise RuntimeError(message)
                yield from module.read_sent(program, shares[number // step])

    return run


def _make_call(fingerprint: str) -> Callable[..., tuple[str, bytes]]:
    """How a task calls a function of this package, sent as code: the function's result, or what it has found instead of what it needs."""
    start = _make_start(fingerprint)

    def call(name: str, *arguments: Any) -> tuple[str, bytes]:
        import sys

        kind, content, module = start()
        if module is None:
            return kind, content
        try:
            return "result", getattr(module, name)(*arguments)
        except ImportError as error:
            # A program needs other packages than the beginning of a task.
            return "missing", f"Python {sys.version.split()[0]}: {error}".encode()

    return call


def _make_start(fingerprint: str) -> Callable[[], tuple[str, bytes, Any]]:
    """What a task does first, sent as code: it finds this package, or says what it has found instead."""

    def start() -> tuple[str, bytes, Any]:
        import importlib
        import sys

        # A package that was sent goes before what the machine has, and before what this worker has imported of that.
        sent = [place for place in sys.path if place.endswith("/platform_plugin.zip")]
        if sent and sys.path[0] != sent[0]:
            sys.path.insert(0, sent[0])
            for name in [name for name in sys.modules if name.partition(".")[0] == "platform_plugin"]:
                del sys.modules[name]
        try:
            module = importlib.import_module("platform_plugin.engine.spark.tasks.running")
            own = module.read_fingerprint()
        except ImportError as error:
            return "missing", f"Python {sys.version.split()[0]}: {error}".encode(), None
        return ("result", b"", module) if own == fingerprint else ("other", f"{module.__file__}".encode(), None)

    return start


def read_answers(batch: pa.RecordBatch) -> Iterator[TaskAnswer]:
    """The answers in a batch."""
    for row in batch.to_pylist():
        yield TaskAnswer(row["part"], row["task"], row["kind"], row["content"])


def pack(value: Any) -> bytes:
    """A value as it is sent."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
