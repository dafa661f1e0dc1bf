"""Making the virtual machine afresh: its root, its disk, its first boot. `lifecycle.down` ends it as any lab."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from qwenhost.lab import hosts, lifecycle
from qwenhost.lab.commands import require_root, require_tools, run
from qwenhost.lab.image import image
from qwenhost.lab.keys import ensure_keys, public
from qwenhost.lab.layout import Lab
from qwenhost.lab.vm.disk import write_disk
from qwenhost.lab.vm.guest import write_guest
from qwenhost.lab.vm.machine import CPULISTS, LOOPBACK, VirtualMachine, await_booted, start
from qwenhost.lab.vm.recipe import recipe
from qwenhost.records.errors import QwenhostError

PACKAGE_OF = {"qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs"}
"""Tool -> its Debian and Ubuntu package, besides those that every lab needs."""

Install = Callable[[Path, str, int, Sequence[str]], None]


def up(lab: Lab, sku: str, gpus: int, install: Install) -> VirtualMachine:
    """Make the machine of this lab, in place of one that is there, and wait until it has booted.

    `install` puts the simulated boards into its root; it is given the CPU list of each NUMA node.
    """
    require_root()
    _require_tools()
    lifecycle.down(lab)
    with lifecycle.locked(lab):
        machine = VirtualMachine(lab.host(1), free_port())
        ensure_keys(lab, [machine.host])
        key = " ".join(public(machine.host.host_key).split()[:2])
        lab.known_hosts.write_text(f"[{LOOPBACK}]:{machine.port} {key}\n")
        _write(machine, lambda root: install(root, sku, gpus, CPULISTS))
        start(machine)
        await_booted(machine)
    return machine


def _require_tools() -> None:
    require_tools()
    missing = [package for tool, package in PACKAGE_OF.items() if not shutil.which(tool)]
    if missing:
        raise QwenhostError("the lab's virtual machine needs QEMU", hint=f"apt install {' '.join(missing)}")


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def _write(machine: VirtualMachine, install: Callable[[Path], None]) -> None:
    """Write the disk from the image, with the guest's own files laid over it."""
    host = machine.host
    hosts.mount_root(host, image(recipe()))
    write_guest(host, host.root)
    install(host.root)
    # Emulated, compiling the simulator's programs takes longer than a doctor waits for them.
    run("chroot", str(host.root), "python3", "-m", "compileall", "-q", "/usr/lib")
    write_disk(host.root, machine.disk)
    run("umount", str(host.root))
