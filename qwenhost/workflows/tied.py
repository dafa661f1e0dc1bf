"""Ansible ends when the run does: with this process, also when it is killed, and on Ctrl-C, with all its workers.

Left alone it ignores the loss of its terminal, waits for ever for a task that was lost, and holds its hosts; and
workers whose parent was killed by ansible-runner hang in a pipe that only they read.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent ends; it outlives execve. Linux alone has it."""

GRACE_SECONDS = 10.0
"""For Ansible to end its workers, before all are killed."""

SCRIPT = """#!/bin/sh
exec '{python}' -I -c 'import ctypes, os, signal, sys
sys.platform == "linux" and ctypes.CDLL(None).prctl({parent_death}, signal.SIGTERM)
os.getppid() == {parent} or sys.exit(1)
open(sys.argv[1], "w").write(str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])' '{pid_file}' '{program}' "$@"
"""


@contextmanager
def own_signal_handlers() -> Iterator[None]:
    """Put back the handlers of Ctrl-C and SIGTERM that ansible-runner replaces for good."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


class Tied:
    """A program of PATH that ends with this process. `folder` holds one of the same name, which runs it."""

    def __init__(self, program: str, path: str, folder: Path) -> None:
        self.folder = folder / "bin"
        self.interrupted = False
        self._pid_file = folder / "pid"
        self._asked_at = 0.0
        self.folder.mkdir()
        found = shutil.which(program, path=path)
        if found:
            self._write(self.folder / program, found)

    def _write(self, path: Path, program: str) -> None:
        names = {"python": sys.executable, "program": program, "pid_file": self._pid_file}
        numbers = {"parent": os.getpid(), "parent_death": PR_SET_PDEATHSIG}
        path.write_text(SCRIPT.format(**names, **numbers), encoding="utf-8")
        path.chmod(0o700)

    def canceled_by(self, asked: Callable[[], bool] | None) -> Callable[[], bool]:
        """Return what ansible-runner asks while it runs: true when all has to be killed.

        `asked` tells of Ctrl-C or SIGTERM. The program is asked to end first.
        """

        def canceled() -> bool:
            if asked is not None and asked() and not self.interrupted:
                self.interrupted, self._asked_at = True, time.monotonic()
                with suppress(OSError, ValueError):
                    os.kill(int(self._pid_file.read_text(encoding="utf-8")), signal.SIGTERM)
            return self.interrupted and time.monotonic() - self._asked_at > GRACE_SECONDS

        return canceled
