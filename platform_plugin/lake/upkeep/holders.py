"""The names of lease holders: which process took a lease, and whether it still runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_holder(purpose: str | None) -> str:
    """A name for this process that no other process has, on this machine or another.

    >>> has_holder_ended(this_holder("a doctest"))
    False
    """
    pid = os.getpid()
    return f"{purpose or 'reader'}@{socket.gethostname()}/{_boot()}/{_namespace()}/{pid}/{_started(pid)}"


def has_holder_ended(holder: str) -> bool:
    """Whether the holder was a process of this machine and has ended; False for processes of other machines."""
    purpose, _, process = holder.rpartition("@")
    parts = process.split("/")
    if not purpose or len(parts) != 5 or parts[0] != socket.gethostname():
        return False
    _, boot, namespace, pid, started = parts
    if not boot or not pid.isdigit() or not started or namespace != _namespace():
        return False
    return boot != _boot() or _started(int(pid)) != started


def _boot() -> str:
    """Which start of the machine this is; empty where nobody can tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    """Which set of process numbers this is: containers of one machine count their own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks; `gone` if there is none, or only its remains."""
    if not Path("/proc/self/stat").exists():
        return ""
    try:
        # The name in brackets may hold blanks and brackets; what follows it is numbers.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "gone"
    return "gone" if words[0] in "ZX" else words[19]
