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
ANSWER_SCHEMA = "task BIGINT, kind STRING, content BINARY"

Kind = Literal["result", "missing", "other"]


class TaskAnswer(NamedTuple):
    """What a task answered: its result by pickle, or how its machine has the package: not at all, or in another version."""

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


class SentShare(NamedTuple):
    """A share, and the number of its program among those of the job."""

    program: int
    share: bytes


def make_function(programs: Sequence[bytes], shares: Sequence[SentShare], fingerprint: str) -> Callable[[Any], Any]:
    """The function for `mapInArrow` over the numbers of shares.

    It imports nothing before it runs, and is sent as code; everything else is sent as bytes that only the package can read.
    """
    # A named tuple would be sent as one of the package.
    work = [(programs[number], share) for number, share in shares]

    def run(batches: Any) -> Any:
        import importlib
        import sys

        import pyarrow as pa

        # A package that was sent goes before what the machine has, and before what this worker has imported of that.
        sent = [place for place in sys.path if place.endswith("/platform_plugin.zip")]
        if sent and sys.path[0] != sent[0]:
            sys.path.insert(0, sent[0])
            for name in [name for name in sys.modules if name.partition(".")[0] == "platform_plugin"]:
                del sys.modules[name]
        for batch in batches:
            for number in batch.column(0).to_pylist():
                kind, content = "result", b""
                try:
                    module = importlib.import_module("platform_plugin.engine.spark.tasks.running")
                    own = module.read_fingerprint()
                except ImportError as error:
                    kind, content = "missing", f"Python {sys.version.split()[0]}: {error}".encode()
                else:
                    if own != fingerprint:
                        kind, content = "other", f"{module.__file__}".encode()
                    else:
                        content = module.run_sent(*work[number])
                yield pa.RecordBatch.from_pydict({"task": [number], "kind": [kind], "content": [content]})

    return run


def read_answers(batch: pa.RecordBatch) -> Iterator[TaskAnswer]:
    """The answers in a batch."""
    for row in batch.to_pylist():
        yield TaskAnswer(row["task"], row["kind"], row["content"])


def pack(value: Any) -> bytes:
    """A value as it is sent."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
