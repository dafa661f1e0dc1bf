"""One control group per part of a lab: it says which processes belong to the part.

Hosts that share a group collide (units fail with 219/CGROUP); parents die before children, and a pid file can
name a stranger's process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from qwenhost.lab.layout import Lab, LabHost
from qwenhost.records.errors import FAILED, QwenhostError

MOUNT = Path("/sys/fs/cgroup")
TOP = "qwenhost-lab"
POLL_SECONDS = 0.05
# SIGKILL ends a process at once; what outlives this waits for a disk.
KILL_TIMEOUT_SECONDS = 10


def hierarchies(mount: Path = MOUNT) -> list[Path]:
    """The hierarchies that systemd tracks processes in: one with cgroup v2, two on a hybrid machine."""
    if (mount / "cgroup.controllers").exists():
        return [mount]
    found = [mount / name for name in ("systemd", "unified") if (mount / name / "cgroup.procs").exists()]
    if not found:
        raise QwenhostError(f"no cgroup hierarchy for systemd under {mount}", hint="mount cgroup2 there")
    return found


def of_lab(lab: Lab) -> str:
    """The group of a whole lab."""
    return f"{TOP}/{lab.name}"


def of_proxy(lab: Lab) -> str:
    """The group of the package proxy."""
    return f"{of_lab(lab)}/proxy"


def of_supervisor(host: LabHost) -> str:
    """The group of the process that starts the guest again when it reboots."""
    return f"{of_host(host)}/supervisor"


def of_guest(host: LabHost) -> str:
    """The group of systemd-nspawn and all that runs in the guest."""
    return f"{of_host(host)}/guest"


def of_host(host: LabHost) -> str:
    """The group of all that belongs to one host."""
    return f"{of_lab(host.lab)}/{host.name}"


def join(group: str) -> None:
    """Move the calling process into the group, making it if need be."""
    for hierarchy in hierarchies():
        (hierarchy / group).mkdir(parents=True, exist_ok=True)
        (hierarchy / group / "cgroup.procs").write_text(str(os.getpid()))


def processes(group: str) -> list[int]:
    """The pids in the group and below it."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        # os.walk passes over groups that go away meanwhile
        for folder, _, _ in os.walk(hierarchy / group):
            found.update(_pids(Path(folder, "cgroup.procs")))
    return sorted(found)


def kill(group: str) -> None:
    """End every process of the group with SIGKILL and wait until none is left."""
    deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
    while pids := processes(group):
        if time.monotonic() > deadline:
            raise QwenhostError(f"processes of {group} outlive SIGKILL: {pids}", exit_code=FAILED)
        for pid in pids:
            send(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def emptied(group: str, timeout_seconds: float) -> bool:
    """Wait for the group's last process to end; whether it did in time."""
    deadline = time.monotonic() + timeout_seconds
    while processes(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def remove(group: str) -> None:
    """Remove the group and those below it; all are empty."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / group, topdown=False):
            Path(folder).rmdir()


def remove_if_empty(group: str) -> None:
    """Remove the group unless others are below it."""
    for hierarchy in hierarchies():
        path = hierarchy / group
        with contextlib.suppress(OSError):  # not there, or another lab came up meanwhile
            path.rmdir()


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _pids(path: Path) -> list[int]:
    try:
        return [int(line) for line in path.read_text().split()]
    except OSError:  # the group went away while it was read
        return []
