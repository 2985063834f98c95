"""`TemporarySettings`: settings of a Spark session that hold while a query runs, also where several threads use the session at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.connect.conf import RuntimeConf


class TemporarySettings:
    """The settings that queries of a session ask for; the newest decides, and the last to end restores what the server has given.

    A session has one value of a setting for all of its threads. So a query may run under what another one has asked for, and only
    settings that change no result may be used so.
    """

    def __init__(self, conf: RuntimeConf) -> None:
        self._conf = conf
        self._given: dict[str, str] = {}
        self._in_force: list[Mapping[str, str]] = []
        self._lock = threading.Lock()

    @contextmanager
    def use(self, values: Mapping[str, str]) -> Iterator[None]:
        """Let these values hold inside the block."""
        asked = dict(values)
        with self._lock:
            before = self._find(asked)
            self._in_force.append(asked)
            self._set(before)
        try:
            yield
        except BaseException:
            with suppress(Exception):  # a server that is gone has no settings
                self._end(asked)
            raise
        self._end(asked)

    def _end(self, asked: Mapping[str, str]) -> None:
        with self._lock:
            before = self._find(asked)
            # By identity: another thread may ask for the same.
            self._in_force = [each for each in self._in_force if each is not asked]
            self._set(before)

    def _find(self, names: Mapping[str, str]) -> dict[str, str]:
        """The values that hold now."""
        for name in names:
            if name not in self._given:
                # To unset a setting gives Spark's default, not the server's value.
                self._given[name] = self._conf.get(name) or ""
        return {name: next((each[name] for each in reversed(self._in_force) if name in each), self._given[name]) for name in names}

    def _set(self, before: Mapping[str, str]) -> None:
        """Send what holds now, where it is another value than before."""
        changed: dict[str, str | int | bool] = {name: value for name, value in self._find(before).items() if value != before[name]}
        if changed:
            self._conf._set_all(changed, silent=True)  # noqa: SLF001  one call for all
