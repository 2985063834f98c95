"""Programs for tasks that go wrong: each runs another one, and does something before or after it. Executors import them from here."""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FaultyProgram:
    """Runs `program`, and once, which a `mark` says for all processes, does what `fault` names."""

    program: Any
    fault: str
    mark: str

    def run(self, share: Any) -> Any:
        """What the program gives; the fault comes after it has written its files, but for `sleep` and `full disk`."""
        first = self._is_first()
        if first and self.fault == "sleep":
            time.sleep(60)
        result = self._run_on_full_disk(share) if first and self.fault == "full disk" else self.program.run(share)
        if first and self.fault == "fail":
            raise OSError(28, "No space left on device")
        if first and self.fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if first and self.fault == "kill executor":
            # The worker's parent is the daemon, whose parent is the executor.
            os.kill(int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(60)
        return result

    def _run_on_full_disk(self, share: Any) -> Any:
        """No file can be longer than some bytes, so that the first one that is written ends in its middle."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            return self.program.run(share)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def _is_first(self) -> bool:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True
