"""A terminal for a command: what it draws is read, what a person would type is written."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time


class Terminal:
    """A process on a pseudo-terminal of its own, of which it is the foreground."""

    def __init__(self, command, *, cwd, env, columns=100):
        self._unread = b""
        self._end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        variables = {"PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
        self.process = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            cwd=cwd,
            env=env | variables,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  the tests that use it start no threads before
        )
        os.close(other)

    def type(self, text):
        os.write(self._end, text.encode())

    def read_until(self, wanted, seconds=60):
        """Everything drawn up to and with `wanted`."""
        until = time.monotonic() + seconds
        while wanted.encode() not in self._unread:
            assert time.monotonic() < until, f"{wanted!r} did not come; the terminal shows {self._unread.decode(errors='replace')!r}"
            if select.select([self._end], [], [], 0.2)[0]:
                self._unread += os.read(self._end, 65536)
        length = self._unread.index(wanted.encode()) + len(wanted.encode())
        seen, self._unread = self._unread[:length], self._unread[length:]
        return seen.decode(errors="replace")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._end)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _take_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
