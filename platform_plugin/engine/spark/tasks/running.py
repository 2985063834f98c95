"""`run_sent`: the beginning of a task on an executor."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.engine.spark.tasks.sending import pack, read_fingerprint

if TYPE_CHECKING:
    from platform_plugin.engine.spark.tasks.sending import Program

__all__ = ["read_fingerprint", "run_sent"]

# A worker runs many tasks of the same job.
_PROGRAMS: Cache[bytes, Program] = Cache("programs of tasks", weigh=lambda _: 500_000)


def run_sent(program: bytes, share: bytes) -> bytes:
    """Run a program over a share, both as they were sent; what it gave, as it is sent back."""
    known = _PROGRAMS.find(program, lambda: pickle.loads(program))  # noqa: S301  the bytes came with the code that runs here
    return pack(known.run(pickle.loads(share)))  # noqa: S301
