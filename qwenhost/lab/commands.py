"""Running the machine's own tools, with errors a user can act on."""

from __future__ import annotations

import os
import shutil
import subprocess

from qwenhost.records.errors import FAILED, QwenhostError

# Debian and Ubuntu packages of the tools that a lab needs.
PACKAGE_OF = {
    "ip": "iproute2",
    "mount": "mount",
    "mmdebstrap": "mmdebstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
}


def run(*argv: str, timeout_seconds: float = 60) -> str:
    """Run a tool to its end and return its stdout; raises QwenhostError with its last line of stderr."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout_seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        late = f"`{' '.join(argv)}` did not end in {timeout_seconds:.0f} s"
        raise QwenhostError(late, exit_code=FAILED) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise QwenhostError(f"`{' '.join(argv)}` failed ({done.returncode}): {lines[-1]}", exit_code=FAILED)
    return done.stdout


def succeeds(*argv: str) -> bool:
    """Whether a tool exits with 0; its output is dropped."""
    return subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def require_root() -> None:
    """Raise unless this is root: mounts, network namespaces and cgroups need it."""
    if os.geteuid():
        raise QwenhostError("a lab needs root, for mounts, namespaces and cgroups", hint="run it with sudo")


def require_tools() -> None:
    """Raise, naming the packages, when a tool that the lab runs is not installed."""
    missing = [tool for tool in PACKAGE_OF if not shutil.which(tool)]
    if missing:
        packages = " ".join(sorted({PACKAGE_OF[tool] for tool in missing}))
        raise QwenhostError(f"a lab needs {', '.join(missing)}", hint=f"apt install {packages}")
