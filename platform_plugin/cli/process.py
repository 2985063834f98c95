"""Set-up of a command's process: SIGTERM and Ctrl-C end it, and its standard files are open."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

_STANDARD = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class TerminationRequest(SystemExit):
    """SIGTERM: the command ends, and what it has open is closed as after an error."""


def prepare_process() -> None:
    """Let Ctrl-C and SIGTERM end the command, and open standard files that its parent has closed."""
    for number, (name, mode) in enumerate(_STANDARD):
        if getattr(sys, name) is None:
            # Else the next file that is opened, perhaps a catalogue, becomes what libraries write their warnings to.
            try:
                os.fstat(number)
            except OSError:
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003  it knows no keyword
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  for as long as the process lives
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell without job control lets what it starts in the background ignore Ctrl-C; statements would go on behind it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, signal.SIG_IGN):
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, _frame: object) -> None:
    raise TerminationRequest(128 + number)
