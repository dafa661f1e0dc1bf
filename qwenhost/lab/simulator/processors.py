"""Stand-ins for the processors' files: those of this machine, with the frequency control that servers have."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from qwenhost.lab.simulator.guest import state

MACHINE = Path("/sys/devices/system/cpu")
NAME = "cpu"

KEPT = ("topology", "cache")
"""Folders of a processor that programs read to place their threads."""

CPUFREQ = {
    "scaling_available_governors": "conservative ondemand userspace powersave performance schedutil",
    "scaling_cur_freq": "2250000",
    "scaling_driver": "acpi-cpufreq",
    "scaling_governor": "schedutil",
    "scaling_max_freq": "2250000",
    "scaling_min_freq": "1500000",
}
"""Of an EPYC 7742, in kHz, as Ubuntu's kernel starts it."""


def write_processors(host_root: Path) -> None:
    """Write the folder, and the governors that a reboot brings back."""
    home = state.folder(host_root)
    shutil.rmtree(home / NAME, ignore_errors=True)
    _copy(MACHINE, home / NAME, _is_processor)
    for cpu in sorted((home / NAME).glob("cpu[0-9]*")):
        for folder in (cpu, home / "defaults" / NAME / cpu.name):
            (folder / "cpufreq").mkdir(parents=True, exist_ok=True)
        for name, text in CPUFREQ.items():
            (cpu / "cpufreq" / name).write_text(f"{text}\n", encoding="ascii")
        governor = Path("cpufreq", "scaling_governor")
        shutil.copyfile(cpu / governor, home / "defaults" / NAME / cpu.name / governor)


def _is_processor(name: str) -> bool:
    return re.fullmatch(r"cpu\d+", name) is not None


def _copy(source: Path, target: Path, folders: Callable[[str], bool]) -> None:
    """Copy files and links, and of the folders those that are asked for, with all in them."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_symlink():
            (target / path.name).symlink_to(path.readlink())
        elif path.is_file():
            with contextlib.suppress(OSError):  # some can only be written
                (target / path.name).write_bytes(path.read_bytes())
        elif folders(path.name):
            _copy(path, target / path.name, lambda name: name in KEPT or name.startswith("index"))
