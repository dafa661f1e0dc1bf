"""`python -m qwenhost.lab.supervisor LAB HOST`: runs one host's guest, and runs it again when it reboots."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from qwenhost.lab import cgroups
from qwenhost.lab.layout import MODELS, WHEELHOUSE, Lab, LabHost

# systemd-nspawn(1): "If the container has been rebooted, exits with 133".
REBOOTED = 133


def guest_command(host: LabHost) -> list[str]:
    """The systemd-nspawn call that boots the host."""
    return [
        "systemd-nspawn",
        "--boot",
        "--quiet",
        "--register=no",
        "--keep-unit",
        "--console=pipe",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        f"--machine={host.machine}",
        f"--hostname={host.name}",
        f"--network-namespace-path=/run/netns/{host.machine}",
        f"--directory={host.root}",
        f"--bind-ro={WHEELHOUSE}:/srv/wheelhouse",
        f"--bind-ro={MODELS}:/srv/models",
    ]


def supervise(host: LabHost) -> int:
    """Run the guest until it halts; returns the exit code of its last run. SIGTERM halts the guest."""
    cgroups.join(cgroups.of_supervisor(host))
    # Guests may write their own network settings under /proc/sys; the rest is the machine's.
    environment = os.environ | {"SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
    command, halting = guest_command(host), False
    guest: subprocess.Popen[bytes] | None = None

    def halt(*_: object) -> None:
        nonlocal halting
        halting = True
        if guest:
            guest.terminate()

    signal.signal(signal.SIGTERM, halt)
    code = REBOOTED
    while code == REBOOTED and not halting:
        guest = subprocess.Popen(command, env=environment, preexec_fn=lambda: _enter_guest_group(host))
        if halting:  # asked while the guest was being started
            guest.terminate()
        code = guest.wait()
    return code


def _enter_guest_group(host: LabHost) -> None:
    # An own session: a signal to the supervisor's group must not reach the guest before the supervisor does.
    os.setsid()
    cgroups.join(cgroups.of_guest(host))


if __name__ == "__main__":
    sys.exit(supervise(Lab(sys.argv[1]).named(sys.argv[2])))
