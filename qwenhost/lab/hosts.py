"""Making, starting and ending one lab host: its overlay, its guest, and what is left when any of it dies."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from qwenhost.lab import cgroups, network
from qwenhost.lab.aptsources import AptSource
from qwenhost.lab.commands import run, succeeds
from qwenhost.lab.guest import write_guest
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import MODELS, WHEELHOUSE, LabHost
from qwenhost.records.errors import FAILED, QwenhostError

POLL_SECONDS = 0.1
# A guest halts in about 1 s, but misses the request while it boots. Its disk is thrown away next.
HALT_TIMEOUT_SECONDS = 8
REAP_TIMEOUT_SECONDS = 2
START_TIMEOUT_SECONDS = 20
SSH_PORT = 22


def make(host: LabHost, image: Path, sources: list[AptSource], install: Callable[[Path], None]) -> None:
    """Make a fresh host: overlay on the image, lab files, the simulator by `install`, network."""
    mount_root(host, image)
    write_guest(host, sources, host.root)
    install(host.root)
    network.connect(host)


def mount_root(host: LabHost, image: Path) -> None:
    """Lay a fresh overlay of the host's own over the image."""
    for name in ("upper", "work", "root"):
        (host.folder / name).mkdir(parents=True)
    # volatile: no fsync, so package installs are quicker; an overlay never outlives its lab.
    layers = f"lowerdir={image},upperdir={host.folder / 'upper'},workdir={host.folder / 'work'},volatile"
    run("mount", "-t", "overlay", f"qwenhost-lab-{host.name}", "-o", layers, str(host.root))


def boot(host: LabHost) -> None:
    """Start the host's supervisor, and wait until it has started the guest."""
    for folder in (WHEELHOUSE, MODELS):
        folder.mkdir(parents=True, exist_ok=True)
    start_detached(module("supervisor", host.lab.name, host.name), host.console)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not running(host):
        if time.monotonic() > deadline:
            late = f"{host.name} did not start"
            raise QwenhostError(late, hint=f"its console is in {host.console}", exit_code=FAILED)
        time.sleep(POLL_SECONDS)


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package."""
    return [sys.executable, "-m", f"qwenhost.lab.{name}", *arguments]


def start_detached(command: list[str], log: Path) -> None:
    """Start a process that is no child of this one, with its output appended to a file."""
    with log.open("ab") as output:
        subprocess.run(
            ["setsid", "--fork", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            check=True,
        )


def running(host: LabHost) -> bool:
    """Whether the host is whole: supervisor, guest, root and network; one that lost a part is a remain."""
    groups = (cgroups.of_supervisor(host), cgroups.of_guest(host))
    return all(map(cgroups.processes, groups)) and host.root.is_mount() and network.exists(host.machine)


def guest_init(host: LabHost) -> int | None:
    """The pid, on this machine, of the guest's systemd; None while there is none."""
    for pid in cgroups.processes(cgroups.of_guest(host)):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:  # it ended meanwhile
            continue
        if re.search(r"^NSpid:\s+\d+\s+1$", status, re.MULTILINE):
            return pid
    return None


def halt(hosts: list[LabHost]) -> None:
    """Shut the guests down together, then end with SIGKILL what is still there."""
    for host in hosts:
        for pid in cgroups.processes(cgroups.of_supervisor(host)):
            cgroups.send(pid, signal.SIGTERM)
    deadline = time.monotonic() + HALT_TIMEOUT_SECONDS
    for host in hosts:
        orphaned = not cgroups.processes(cgroups.of_supervisor(host))
        cgroups.emptied(cgroups.of_host(host), 0 if orphaned else deadline - time.monotonic())
        cgroups.kill(cgroups.of_guest(host))
        # The supervisor takes its child's exit status, and ends.
        cgroups.emptied(cgroups.of_supervisor(host), REAP_TIMEOUT_SECONDS)
        cgroups.kill(cgroups.of_host(host))


def clear(host: LabHost) -> None:
    """Remove all that a halted host leaves: mounts, namespace, control groups, overlay."""
    _nspawn_lock(host).unlink(missing_ok=True)
    for mount in mounts_below(host.folder):
        if not succeeds("umount", str(mount)):
            run("umount", "--lazy", str(mount))
    network.disconnect(host)
    cgroups.remove(cgroups.of_host(host))
    for left in Path("/run/systemd/nspawn").glob(f"*/{host.machine}"):
        shutil.rmtree(left)
    if host.folder.exists():
        shutil.rmtree(host.folder)


def _nspawn_lock(host: LabHost) -> Path:
    """Where systemd-nspawn locks the host's root, by device and inode; a killed one leaves it."""
    seen = host.root.stat() if host.root.exists() else host.folder.parent.stat()
    return Path(f"/run/systemd/nspawn/locks/inode-{seen.st_dev}:{seen.st_ino}")


def mounts_below(folder: Path) -> list[Path]:
    """Mount points at or below a folder, innermost first."""
    points = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = [point for point in points if point.is_relative_to(folder)]
    return sorted(below, key=lambda point: len(point.parts), reverse=True)


def ssh_answers(host: LabHost) -> bool:
    """Whether the host's SSH server sends its banner."""
    try:
        with socket.create_connection((host.address, SSH_PORT), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def system_state(host: LabHost, wait_seconds: int = 0) -> str:
    """What `systemctl is-system-running` says, if asked after the end of the boot; "" without an answer."""
    question = "systemctl is-system-running"
    asked = f"timeout {wait_seconds} {question} --wait" if wait_seconds else question
    return subprocess.run(
        [*ssh_command(host), asked], capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stdout.strip()


def await_booted(host: LabHost, timeout_seconds: int) -> str:
    """Wait until SSH answers and the boot has ended; returns systemd's state. Raises QwenhostError."""
    deadline = time.monotonic() + timeout_seconds
    while not ssh_answers(host):
        if time.monotonic() > deadline or not running(host):
            raise QwenhostError(
                f"{host.name} does not answer on {host.address}:{SSH_PORT}",
                hint=f"its console is in {host.console}",
                exit_code=FAILED,
            )
        time.sleep(POLL_SECONDS)
    return system_state(host, wait_seconds=max(1, round(deadline - time.monotonic())))
