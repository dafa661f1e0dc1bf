"""Writes the simulator into a host root before its first boot."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

from qwenhost.lab.simulator import boards, build
from qwenhost.lab.simulator.grub import write_grub
from qwenhost.lab.simulator.guest import faultlog, power_on, state
from qwenhost.lab.simulator.kernel_files import write_driver_files, write_kernel_files
from qwenhost.lab.simulator.pci_tree import write_tree
from qwenhost.lab.simulator.processors import write_processors

HERE = Path(__file__).parent
LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"
PROGRAMS = ("nvidia-smi", "nv-fabricmanager", "nvidia-persistenced", "dmesg")
DEFAULTS = ("vm", "thp", "hugepages", "node")
"""Stand-ins that a reboot sets back to the kernel's defaults."""


def install(root: Path, sku: str, gpus: int) -> None:
    """Write all stand-ins below `root`: a healthy host of `gpus` boards of `sku`, not yet booted.

    Serials and UUIDs follow from the folder's path, so that hosts differ and one host stays itself.
    Raises QwenhostError for a sku or count that is not simulated, or when the library cannot be compiled.
    """
    values = _install_boards(root, sku, gpus, _split_cpus(boards.NODES))
    home = state.folder(root)
    write_kernel_files(root, values)
    for name in DEFAULTS:
        shutil.copytree(home / name, home / "defaults" / name, dirs_exist_ok=True)
    options = Path("proc-driver/nvidia/params")
    (home / "defaults" / options).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home / options, home / "defaults" / options)
    (home / "cmdline").write_text(power_on.CMDLINE + "\n", encoding="ascii")
    _install_module_index(root)
    write_processors(root)
    write_grub(root)


def install_on_kernel(root: Path, sku: str, gpus: int, cpulists: Sequence[str]) -> None:
    """Write only the boards and their driver, for a guest with a kernel of its own, whose files are real.

    `cpulists` is one kernel CPU list per NUMA node of the guest. Raises as `install` does.
    """
    write_driver_files(root, _install_boards(root, sku, gpus, cpulists))


def _install_boards(root: Path, sku: str, gpus: int, cpulists: Sequence[str]) -> state.Values:
    values = boards.fresh_state(sku, gpus, _seed(root), cpulists)
    home = state.folder(root)
    home.mkdir(parents=True, exist_ok=True)
    (home / "lock").touch()
    (home / "faults.json").unlink(missing_ok=True)
    state.write(values, root)
    write_tree(root, values)
    (home / "kmsg").write_text("", encoding="ascii")
    faultlog.append(faultlog.boot_lines(values, power_on.CMDLINE), 0.0, root)
    _install_programs(root)
    _install_units(root, fabric=int(values["nvswitch.count"]) > 0)
    return values


def _seed(root: Path) -> str:
    return hashlib.sha256(str(root.resolve()).encode()).hexdigest()


def _split_cpus(nodes: int) -> list[str]:
    """Return one CPU list per node; with fewer CPUs than nodes they share."""
    cpus = sorted(os.sched_getaffinity(0))
    size = max(1, len(cpus) // nodes)
    parts = [cpus[index * size : None if index == nodes - 1 else (index + 1) * size] for index in range(nodes)]
    return [_cpulist(part or cpus) for part in parts]


def _cpulist(cpus: list[int]) -> str:
    if len(cpus) > 1 and cpus[-1] - cpus[0] == len(cpus) - 1:
        return f"{cpus[0]}-{cpus[-1]}"
    return ",".join(map(str, cpus))


def _install_programs(root: Path) -> None:
    package = root / "usr/lib/a100sim/a100sim"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE / "guest", package, dirs_exist_ok=True, ignore=ignored)
    _script(root / "usr/lib/a100sim/run", 'exec /usr/bin/python3 -S -m a100sim "$@"')
    for name in PROGRAMS:
        _script(root / "usr/bin" / name, f'exec /usr/bin/python3 -S -m a100sim {name} "$@"')
    folder = root / LIBRARY_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"libnvidia-ml.so.{boards.DRIVER}"
    shutil.copy(build.library(), target)
    for link, to in (("libnvidia-ml.so.1", target.name), ("libnvidia-ml.so", "libnvidia-ml.so.1")):
        (folder / link).unlink(missing_ok=True)
        (folder / link).symlink_to(to)


def _install_module_index(root: Path) -> None:
    """Write empty module indexes for the running kernel: `lspci -k` tells no driver without them."""
    folder = root / "usr/lib/modules" / os.uname().release
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("dep", "alias", "symbols", "builtin", "builtin.alias"):
        # Magic number, format 2.1, no root node (kmod, libkmod-index.c).
        (folder / f"modules.{name}.bin").write_bytes(struct.pack(">III", 0xB007F457, 0x0002_0001, 0))


def _script(path: Path, command: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    text = (
        "#!/bin/sh\n# Stand-in of the qwenhost lab's A100 simulator, not the real program.\n"
        'PYTHONPATH="${A100SIM_ROOT}/usr/lib/a100sim"; PYTHONDONTWRITEBYTECODE=; PYTHONSAFEPATH=1\n'
        f"export PYTHONPATH PYTHONSAFEPATH PYTHONDONTWRITEBYTECODE\n{command}\n"
    )
    path.write_text(text, encoding="ascii")
    path.chmod(0o755)


def _install_units(root: Path, fabric: bool) -> None:
    folder = root / "etc/systemd/system"
    folder.mkdir(parents=True, exist_ok=True)
    for unit in sorted((HERE / "units").glob("*.service")):
        if not fabric and unit.name in ("nvidia-fabricmanager.service", "a100sim-watch.service"):
            continue
        text = unit.read_text(encoding="ascii")
        (folder / unit.name).write_text(text, encoding="ascii")
        wants = folder / f"{text.rsplit('WantedBy=', 1)[1].strip()}.wants"
        wants.mkdir(exist_ok=True)
        (wants / unit.name).unlink(missing_ok=True)
        (wants / unit.name).symlink_to(f"../{unit.name}")
