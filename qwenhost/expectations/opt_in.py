"""Host settings that only an inventory asks for: swap, the size of /dev/shm, options of the nvidia module."""

from __future__ import annotations

import re
from typing import Any

from qwenhost.expectations.reader import Reader
from qwenhost.records.desired import Setting

SWAP, SHM, NVIDIA = "qwenhost_swap", "qwenhost_shm", "qwenhost_nvidia_options"

LEAST_SHM_MIB = 64
"""What a container gets where nobody says anything; less is a mistake."""

UNITS = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def read_swap(reader: Reader, value: Any) -> Setting:
    """Read "off", which YAML takes for false; nothing else can be declared."""
    if value is not False and value != "off":
        reader.refuse(SWAP, f"{value!r} is not off", "leave it out where swap may stay")
    return _setting(SWAP, "off")


def read_shm(reader: Reader, value: Any) -> Setting:
    """Read a size such as 64G; the setting has bytes."""
    found = re.fullmatch(r"(\d{1,6})([MGT])", str(value))
    if not found:
        reader.refuse(SHM, f"{value!r} is no size", "such as 64G or 512M")
    size = int(found[1]) * UNITS[found[2]]
    if size < LEAST_SHM_MIB * UNITS["M"]:
        reader.refuse(SHM, f"{value} is less than {LEAST_SHM_MIB}M, which every container gets")
    return _setting(SHM, str(size))


def read_nvidia_options(reader: Reader, value: Any) -> tuple[Setting, ...]:
    """Read options by name; a text holds what modprobe takes without quotes."""
    options = reader.mapping(NVIDIA, value)
    for name, option in options.items():
        if not re.fullmatch(r"NVreg_\w+", str(name)):
            reader.refuse(NVIDIA, f"{name!r} is no option", "names begin with NVreg_, see `modinfo -p nvidia`")
        if not re.fullmatch(r"[\w.:;=,/+-]+", reader.text(f"{NVIDIA}.{name}", option)):
            reader.refuse(f"{NVIDIA}.{name}", f"{option!r} holds a blank or a quote")
    return tuple(_setting(NVIDIA, str(option).strip(), str(name)) for name, option in sorted(options.items()))


def _setting(variable: str, value: str, name: str = "") -> Setting:
    origin = f"inventory: {variable}" + (f".{name}" if name else "")
    return Setting(name or variable, value, "Declared in the inventory.", origin)
