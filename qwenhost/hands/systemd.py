"""Ask and command systemd; where it does not run the host, there are no units."""

from __future__ import annotations

import os
import subprocess

from qwenhost.hands import kernel
from qwenhost.hands.answer import Refused

TIMEOUT_SECONDS = 300
BOOTED = "run/systemd/system"
"""There where systemd runs the host: sd_booted(3)."""
RUNNING = "--state=active,activating"


def call(*arguments: str) -> str:
    """Return what systemctl says, nothing without systemd. Raises Refused."""
    if not os.path.isdir(kernel.path_of(BOOTED)):
        return ""
    try:
        ran = subprocess.run(
            ["systemctl", "--no-ask-password", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS,
            universal_newlines=True,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("systemctl {} did not end in {} s".format(arguments[0], TIMEOUT_SECONDS)) from error
    if ran.returncode != 0:
        raise Refused("systemctl {}: {}".format(arguments[0], " ".join(ran.stderr.split())[:300]))
    return ran.stdout


def running(*patterns: str) -> list[str]:
    """Return the units that run, of those that the patterns name, sorted."""
    told = call("list-units", "--plain", "--no-legend", RUNNING, *patterns)
    return sorted(line.split()[0] for line in told.splitlines() if line.strip())


def unit_of(pid: int) -> str:
    """Return the system service that a process belongs to, empty for none (cgroups(7))."""
    try:
        groups = kernel.read(kernel.path_of("proc", str(pid), "cgroup")).splitlines()
    except OSError:
        return ""
    for path in (line.split(":", 2)[-1] for line in groups):
        names = path.strip("/").split("/")
        if names[0] == "system.slice":
            return next((name for name in names if name.endswith(".service")), "")
    return ""
