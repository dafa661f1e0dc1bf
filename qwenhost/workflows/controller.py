"""Who runs a play, and whether another run that holds a host still lives."""

from __future__ import annotations

import getpass
import os
import platform
import re
import time
from pathlib import Path

CONTROLLER = re.compile(r"(?P<who>\S+) process (?P<pid>\d+) of (?P<started>\d+)")


TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def controller(pid: int) -> str:
    """Return the name of a controlling process: who, where, its number, and when it was started, in ticks."""
    return f"{getpass.getuser()}@{platform.node()} process {pid} of {_started(pid)}"


def run_name(pid: int) -> str:
    """Return the name of the run of a controlling process: the same for all its hosts and tasks."""
    started = _booted() + _started(pid) // TICKS_PER_SECOND
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(started))}-{pid}"


def dead(holder: str) -> bool:
    """Tell whether a controller is known to be gone: a process of this user here that no longer is."""
    found = CONTROLLER.fullmatch(holder)
    if found is None or found["who"] != f"{getpass.getuser()}@{platform.node()}":
        return False
    return _started(int(found["pid"])) != int(found["started"])


def _started(pid: int) -> int:
    """Return when a process was started, in ticks since boot; 0 for one that is not there, or has ended.

    proc(5), fields 3 and 22 of stat. The times of /proc/PID itself are those of whoever looked first.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state in "ZX" else int(fields[18])


def _booted() -> int:
    """Return when this machine was booted, in seconds since 1970; 0 where nothing tells."""
    try:
        lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("btime ")), 0)
