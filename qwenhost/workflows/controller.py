"""Who runs a play, and whether another run that holds a host still lives."""

from __future__ import annotations

import getpass
import platform
import re
import time
from pathlib import Path

CONTROLLER = re.compile(r"(?P<who>\S+) process (?P<pid>\d+) of (?P<started>\d+)")


def controller(pid: int) -> str:
    """Return the name of a controlling process: who, where, its number, and when it was started."""
    return f"{getpass.getuser()}@{platform.node()} process {pid} of {_started(pid)}"


def run_name(pid: int) -> str:
    """Return the name of the run of a controlling process: the same for all its hosts and tasks."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(_started(pid)))}-{pid}"


def dead(holder: str) -> bool:
    """Tell whether a controller is known to be gone: a process of this user here that no longer is."""
    found = CONTROLLER.fullmatch(holder)
    if found is None or found["who"] != f"{getpass.getuser()}@{platform.node()}":
        return False
    return _started(int(found["pid"])) != int(found["started"])


def _started(pid: int) -> int:
    """Return when a process was started, in seconds since 1970; 0 for one that is not there."""
    try:
        return int(Path(f"/proc/{pid}").stat().st_ctime)
    except OSError:
        return 0
