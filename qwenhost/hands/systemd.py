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


def call(*arguments: str, seconds: float = TIMEOUT_SECONDS) -> str:
    """Return what systemctl says, nothing without systemd. Raises Refused."""
    return _said("systemctl", "--no-ask-password", *arguments, seconds=seconds)


def later(seconds: int, unit: str, *argv: str) -> None:
    """Have systemd run a command after some time, as a timer of that name. Raises Refused."""
    _said("systemd-run", "--collect", "--on-active={}".format(seconds), "--unit=" + unit, *argv)


def journal(*arguments: str) -> list[str]:
    """Return lines of the journal. Raises Refused."""
    return _said("journalctl", "--output=cat", "--no-pager", *arguments).splitlines()


def _said(program: str, *arguments: str, seconds: float = TIMEOUT_SECONDS) -> str:
    if not os.path.isdir(kernel.path_of(BOOTED)):
        return ""
    verb = next((word for word in arguments if not word.startswith("-")), "")
    try:
        ran = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=seconds,
            universal_newlines=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("{} {} did not end in {:g} s".format(program, verb, seconds)) from error
    if ran.returncode != 0:
        raise Refused("{} {}: {}".format(program, verb, " ".join(ran.stderr.split())[:300]))
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
