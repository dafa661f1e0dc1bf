"""What can be compared between hosts: short values by name, one way to tell each; unseen ones are left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from qwenhost.facts.board import Board
from qwenhost.facts.driver import DriverVersions
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.kernels import RunningKernel
from qwenhost.facts.memory import Memory
from qwenhost.facts.pci import PciDevices

Traits = Mapping[str, str]

PRODUCT = "GPU product"
MIXED = " + "
"""Joins the values of a host whose own GPUs differ."""


def of_driver(versions: DriverVersions | None) -> Traits:
    """Return the version of the loaded driver."""
    return _told({"driver version": (versions.module or versions.library) if versions else None})


def of_kernel(kernel: RunningKernel | None) -> Traits:
    """Return the running kernel's release."""
    return _told({"kernel": kernel.release if kernel else None})


def of_firmware(gpus: Gpus | None, board: Board | None) -> Traits:
    """Return the versions of the firmware of GPUs and mainboard."""
    vbios = [gpu.vbios for gpu in gpus.answering] if gpus else []
    return _told({"VBIOS": _joined(vbios), "BIOS": board.bios if board else None})


def of_hardware(gpus: Gpus | None, pci: PciDevices | None, memory: Memory | None, board: Board | None) -> Traits:
    """Return what was bought: machine, boards, their number, memory and lanes, and the memory of the host."""
    answering = gpus.answering if gpus else ()
    ids = [gpu.device_id for gpu in answering] or [device.device for device in pci.gpus] if pci else []
    lanes = [gpu.width_current for gpu in answering]
    return _told(
        {
            "machine": board.product if board else None,
            PRODUCT: _joined(ids),
            "GPU count": str(gpus.listed) if gpus else str(len(pci.gpus)) if pci else None,
            "GPU memory": _joined([_gib(gpu.memory_total_mib) for gpu in answering]),
            "PCIe width": _joined([f"x{width}" if width else None for width in lanes]),
            "host memory": _installed(memory.total) if memory else None,
        }
    )


def _told(values: Mapping[str, str | None]) -> Traits:
    return {name: value for name, value in values.items() if value}


def _joined(values: Iterable[str | None]) -> str | None:
    return MIXED.join(sorted({value for value in values if value})) or None


def _gib(mib: int | None) -> str | None:
    return f"{mib / 1024:.0f} GiB" if mib else None


STEP_GIB = 64
"""Modules of GPU hosts come in such sums. What the kernel keeps for itself (1 to 2 %) is less than a step
up to 4 TiB, and differs a little from boot to boot.
"""


def _installed(kib: int) -> str:
    """Return what is fitted, for what the kernel counts as its own."""
    return f"{math.ceil(kib / (1 << 20) / STEP_GIB) * STEP_GIB} GiB"
