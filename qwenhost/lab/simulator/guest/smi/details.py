"""nvidia-smi -q and -q -x: one tree of values, shown as indented text or as XML. Form: R580."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .. import state
from . import identity, sensors
from .errors import SmiError
from .machine import NOT_AVAILABLE, Gpu, cuda_version

if TYPE_CHECKING:
    from .nodes import Node

COLUMN = 55
"""Column of the colon in R560 and later."""

ABOUT = "Written by the qwenhost lab's simulator"
SECTIONS = {
    "MEMORY": ("fb_memory_usage", "bar1_memory_usage"),
    "UTILIZATION": ("utilization",),
    "ECC": ("ecc_mode", "ecc_errors"),
    "TEMPERATURE": ("temperature",),
    "POWER": ("gpu_power_readings",),
    "PIDS": ("processes",),
    "CLOCK": ("clocks", "applications_clocks", "default_applications_clocks", "max_clocks"),
    "COMPUTE": ("compute_mode",),
    "PERFORMANCE": ("performance_state", "clocks_event_reasons"),
    "ROW_REMAPPER": ("remapped_rows",),
    "PAGE_RETIREMENT": ("retired_pages",),
}


def text(values: state.Values, gpus: list[Gpu], display: str = "") -> str:
    """Return the text form; `display` keeps only the named sections."""
    lines = ["", "==============NVSMI LOG==============", "", f"# {ABOUT}"]
    for label, _, value in _head(values):
        lines.append(f"{label:<{COLUMN}}: {value}" if label else "")
    kept = _tags(display)
    for gpu in gpus:
        lines.append(f"GPU {gpu.bus_id}")
        for node in tree(gpu):
            if not kept or node[1] in kept:
                lines += _lines(node, 4)
        lines.append("")
    return "\n".join(lines) + "\n"


def _tags(display: str) -> set[str]:
    names = [name.strip().upper() for name in display.split(",") if name]
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise SmiError(f"Invalid display type {unknown[0]}; known here: {', '.join(SECTIONS)}", 2)
    return {tag for name in names for tag in SECTIONS[name]}


def _lines(node: Node, indent: int) -> list[str]:
    label, _, value = node
    if not label:
        return []
    if isinstance(value, str):
        return [f"{' ' * indent + label:<{COLUMN}}: {value}"]
    return [f"{' ' * indent}{label}"] + [line for child in value for line in _lines(child, indent + 4)]


def xml(values: state.Values, gpus: list[Gpu]) -> str:
    """Return the XML form."""
    lines = ['<?xml version="1.0" ?>', '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">']
    lines += [f"<!-- {ABOUT} -->", "<nvidia_smi_log>"]
    for node in _head(values):
        lines += _elements(node, 1)
    for gpu in gpus:
        lines.append(f'\t<gpu id="{gpu.bus_id}">')
        for node in tree(gpu):
            lines += _elements(node, 2)
        lines.append("\t</gpu>")
    return "\n".join([*lines, "</nvidia_smi_log>", ""])


def _escaped(text: str) -> str:
    # xml.sax.saxutils does the same, and takes longer to import than this program runs.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _elements(node: Node, depth: int) -> list[str]:
    _, tag, value = node
    tabs = "\t" * depth
    if not tag:
        return []
    if isinstance(value, str):
        plain = value[2:] if tag.startswith("pci_") and value.startswith("0x") else value
        return [f"{tabs}<{tag}>{_escaped(plain)}</{tag}>"]
    inner = [line for child in value for line in _elements(child, depth + 1)]
    return [f"{tabs}<{tag}>", *inner, f"{tabs}</{tag}>"]


def _head(values: state.Values) -> list[Node]:
    return [
        ("Timestamp", "timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        ("Driver Version", "driver_version", values["driver.module_version"]),
        ("CUDA Version", "cuda_version", cuda_version(values)),
        ("", "", ""),
        ("Attached GPUs", "attached_gpus", str(len(state.slots(values)))),
    ]


def tree(gpu: Gpu) -> list[Node]:
    """Return all sections of one GPU, in the order of the real tool."""
    return [
        *identity.identity(gpu),
        *identity.mig(gpu),
        *identity.board(gpu),
        identity.pci(gpu),
        ("Fan Speed", "fan_speed", NOT_AVAILABLE),
        ("Performance State", "performance_state", f"P{gpu.number('performance_state')}"),
        *sensors.events(gpu),
        ("Sparse Operation Mode", "sparse_operation_mode", NOT_AVAILABLE),
        *sensors.memory(gpu),
        ("Compute Mode", "compute_mode", "Default"),
        sensors.utilization(gpu),
        *sensors.ecc(gpu),
        sensors.retired(),
        sensors.remapped(gpu),
        sensors.temperature(gpu),
        *sensors.power(gpu),
        *sensors.clocks(gpu),
        sensors.fabric(),
        sensors.processes(gpu),
        ("Capabilities", "capabilities", [("EGM", "egm", "disabled")]),
    ]
