"""The virtual machine itself: QEMU by software emulation, its serial console, its way in."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from qwenhost.lab import cgroups
from qwenhost.lab.hosts import POLL_SECONDS, START_TIMEOUT_SECONDS, module, start_detached
from qwenhost.lab.keys import ssh_options
from qwenhost.lab.layout import Lab, LabHost
from qwenhost.records.errors import FAILED, QwenhostError

LOOPBACK = "127.0.0.1"
NODES = 2
MEMORY_PER_NODE_MIB = 2048
CPULISTS = tuple(str(node) for node in range(NODES))
"""One processor per NUMA node."""

BOOT_TIMEOUT_SECONDS = 300
"""A boot takes 20 s on an idle machine; on a busy one several times that."""
CONSOLE_LINES = 15


@dataclass(frozen=True)
class VirtualMachine:
    """A lab host that is a virtual machine; `port` of this machine's loopback leads to its SSH server."""

    host: LabHost
    port: int

    @property
    def disk(self) -> Path:
        """Its one disk; what the guest writes is there."""
        return self.host.folder / "disk.img"

    @property
    def log(self) -> Path:
        """QEMU's own messages."""
        return self.host.folder / "qemu.log"

    def ssh(self, command: str) -> list[str]:
        """An ssh call that runs a command as root, with the host's key checked."""
        return ["ssh", *ssh_options(self.host.lab), "-p", str(self.port), f"root@{LOOPBACK}", command]

    def says(self, command: str) -> str | None:
        """What a command prints on the guest; None when it failed or nobody answered."""
        done = subprocess.run(self.ssh(command), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return None if done.returncode else done.stdout.strip()


def qemu_command(machine: VirtualMachine) -> list[str]:
    """The QEMU call. Its network leads nowhere but back: nothing is reached from inside."""
    words = ["qemu-system-x86_64", "-name", machine.host.machine, "-M", "q35", "-cpu", "max"]
    # /dev/kvm is not used: where it is nested, a stock kernel may hang under it, and every machine can emulate.
    words += ["-accel", "tcg,thread=multi", "-smp", str(NODES), "-m", f"{NODES * MEMORY_PER_NODE_MIB}M"]
    for node in range(NODES):
        words += ["-object", f"memory-backend-ram,id=memory{node},size={MEMORY_PER_NODE_MIB}M"]
        words += ["-numa", f"node,nodeid={node},memdev=memory{node},cpus={CPULISTS[node]}"]
    words += ["-nodefaults", "-no-user-config", "-display", "none", "-serial", f"file:{machine.host.console}"]
    # cache=unsafe: the disk does not outlive its lab.
    words += ["-drive", f"file={machine.disk},format=raw,if=none,id=disk,cache=unsafe"]
    words += ["-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci"]
    words += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:{LOOPBACK}:{machine.port}-:22"]
    return [*words, "-device", "virtio-net-pci,netdev=net,romfile="]


def start(machine: VirtualMachine) -> None:
    """Start QEMU in the host's control group; it lives until the lab goes down. Raises QwenhostError."""
    start_detached(module("vm.machine", machine.host.lab.name, str(machine.port)), machine.log)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not running(machine):
        if time.monotonic() > deadline:
            raise QwenhostError("QEMU did not start", hint=console(machine), exit_code=FAILED)
        time.sleep(POLL_SECONDS)


def running(machine: VirtualMachine) -> bool:
    """Whether QEMU runs."""
    return bool(cgroups.processes(cgroups.of_supervisor(machine.host)))


def await_booted(machine: VirtualMachine) -> str:
    """Wait until the boot has ended; returns systemd's state. Raises QwenhostError with the console's end."""
    deadline = time.monotonic() + BOOT_TIMEOUT_SECONDS
    while (answer := machine.says("systemctl is-system-running --wait || true")) is None:
        if time.monotonic() > deadline or not running(machine):
            raise QwenhostError(
                f"the virtual machine does not answer on {LOOPBACK}:{machine.port}",
                hint=console(machine),
                exit_code=FAILED,
            )
        time.sleep(POLL_SECONDS)
    return answer


def console(machine: VirtualMachine) -> str:
    """What QEMU said, and the last that the guest's kernel and services printed."""
    paths = (machine.log, machine.host.console)
    texts = [path.read_text(errors="replace") for path in paths if path.exists()]
    return "\n".join(line for text in texts for line in text.splitlines()[-CONSOLE_LINES:])


def _run(lab: Lab, port: int) -> None:
    """Become QEMU, in the group by which the lab ends it."""
    machine = VirtualMachine(lab.host(1), port)
    cgroups.join(cgroups.of_supervisor(machine.host))
    command = qemu_command(machine)
    os.execvp(command[0], command)


if __name__ == "__main__":
    _run(Lab(sys.argv[1]), int(sys.argv[2]))
