"""`SharedPlatform`: the one open lake and Spark session of a process for all connections of an engine."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from collections.abc import Mapping


class SharedPlatform:
    """Opens the platform once in a process, and closes it when it was given up and nobody uses it any more.

    A forked child opens its own: neither the catalogue's connections nor the channel to Spark survive a fork.
    """

    def __init__(self, url: str, limits: Mapping[str, int | str] | None = None, engine: str | None = None) -> None:
        self._url = url
        self._limits = limits
        self._engine = engine
        self._lock = threading.Lock()
        self._platform: Platform | None = None
        self._process = os.getpid()
        self._users = 0
        self._given_up = False

    def get(self) -> Platform:
        """The open platform."""
        if self._process != os.getpid():
            # The parent's lock may have been held when it forked, and what it opened is the parent's to close.
            self._lock, self._platform, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._platform is None:
                self._platform = Platform.open(self._url, limits=self._limits, engine=self._engine)
            return self._platform

    def join(self) -> Platform:
        """The open platform, with one more user."""
        platform = self.get()
        with self._lock:
            self._users += 1
        return platform

    def leave(self) -> None:
        """Count one user less."""
        with self._lock:
            self._users -= 1
        self._close_if_done()

    def give_up(self) -> None:
        """Close the platform as soon as nobody uses it."""
        self._given_up = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        with self._lock:
            done = self._given_up and self._users == 0 and self._process == os.getpid()
            platform, self._platform = (self._platform, None) if done else (None, self._platform)
        if platform is not None:
            platform.close()

    def __repr__(self) -> str:
        return f"SharedPlatform({self._users} users)"
