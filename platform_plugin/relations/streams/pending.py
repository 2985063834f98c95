"""`PendingAppends`: the appends of a platform to one stream, through all its handles, whose outcome is not known yet."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from platform_plugin.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from datetime import timedelta

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.relations.streams.append import Committer
    from platform_plugin.relations.streams.group import AppendOutcome, Receipt


class PendingAppends:
    """The appends of one platform to one stream. All handles share it, so that each of them can wait for all of them."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """In a forked child: forget the parent's appends."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open: dict[Future[AppendOutcome], Committer] = {}
        self._failure: PlatformError | None = None

    def settle_process(self) -> None:
        """Forget the parent's appends, in a forked child that has not done so yet."""
        if self._process != os.getpid():
            self.renew()

    def add(self, receipt: Receipt, committer: Committer) -> None:
        with self._lock:
            self._open[receipt] = committer

    def forget(self, receipt: Future[AppendOutcome]) -> None:
        """Remove a receipt whose outcome a caller waits for, or whose append was refused."""
        with self._lock:
            self._open.pop(receipt, None)

    def note(self, receipt: Future[AppendOutcome]) -> PlatformError | None:
        """Record the failure of an append for the next flush of any handle, and return it for its own."""
        error = None if receipt.cancelled() else receipt.exception()
        failure = error if isinstance(error, PlatformError) else None
        with self._lock:
            self._open.pop(receipt, None)
            self._failure = self._failure or failure
        return failure

    def take_failure(self) -> PlatformError | None:
        """The first failure since the last call."""
        with self._lock:
            failure, self._failure = self._failure, None
        return failure

    def wait(self, name: Name, timeout: timedelta | None, receipts: Sequence[Receipt] | None = None) -> None:
        """Wait until these appends, or all so far, are committed or have failed."""
        from concurrent.futures import wait

        with self._lock:
            waiting = {receipt: self._open[receipt] for receipt in receipts or self._open if receipt in self._open}
        for committer in set(waiting.values()):
            committer.hurry()
        _, late = wait(waiting, None if timeout is None else timeout.total_seconds())
        if late:
            raise PlatformError(
                f'{len(late)} appends to stream "{name}" are not committed yet', hint="wait longer; they are still under way"
            )
        # Callbacks run after those who wait have been woken.
        until = time.monotonic() + 1.0
        while not self._open.keys().isdisjoint(waiting) and time.monotonic() < until:
            time.sleep(0.0005)

    @property
    def is_empty(self) -> bool:
        """Whether no append of this process waits."""
        return not self._open or self._process != os.getpid()
