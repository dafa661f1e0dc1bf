"""One table from paths of `nvidia-smi -q` (text and XML) to fields of a GPU.

Both forms are read into {"section/key": "value"} first, in lower case; the spelling of a key changed over the
years, so that a field lists all its paths, newest first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from qwenhost.facts.gpus import Gpu
from qwenhost.facts.reading import bus_id, flag, lost, number, value

Paths = Mapping[str, str]
Reader = Callable[[str | None], Any]


def _word(text: str | None) -> str | None:
    bare = value(text)
    return bare.lower() if bare else None


def _pci_id(text: str | None) -> str | None:
    bare = re.search(r"(?:0x)?([0-9a-fA-F]{4})[0-9a-fA-F]{4}\b", value(text) or "")
    return bare[1].lower() if bare else None


def _state(text: str | None) -> int | None:
    bare = value(text)
    return int(bare[1:]) if bare and re.fullmatch(r"P\d+", bare) else None


_RECOVERY = {
    "reset": "gpu reset",
    "gpu reset": "gpu reset",
    "reboot": "node reboot",
    "node reboot": "node reboot",
}


def _recovery(text: str | None) -> str | None:
    if text is not None and text.strip().lower() == "none":
        return "none"
    word = _word(text)
    return _RECOVERY.get(word, word.replace("+", " and ")) if word else None


def _virtual(text: str | None) -> str | None:
    return _word(text)


TEXT: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "name": (value, ("product name", "product_name")),
    "uuid": (value, ("gpu uuid", "uuid")),
    "serial": (value, ("serial number", "serial")),
    "device_id": (_pci_id, ("pci/device id", "pci/pci_device_id")),
    "subsystem_id": (_pci_id, ("pci/sub system id", "pci/pci_sub_system_id")),
    "vbios": (value, ("vbios version", "vbios_version")),
    "inforom_image": (value, ("inforom version/image version", "inforom_version/img_version")),
    "board_part": (value, ("board part number", "board_part_number")),
    "gsp_firmware": (value, ("gsp firmware version", "gsp_firmware_version")),
    "persistence": (flag, ("persistence mode", "persistence_mode")),
    "virtualization": (
        _virtual,
        ("gpu virtualization mode/virtualization mode", "gpu_virtualization_mode/virtualization_mode"),
    ),
    "generation_current": (
        number,
        (
            "pci/gpu link info/pcie generation/device current",
            "pci/gpu link info/pcie generation/current",
            "pci/pci_gpu_link_info/pcie_gen/device_current_link_gen",
            "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
        ),
    ),
    "generation_max": (
        number,
        ("pci/gpu link info/pcie generation/max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
    ),
    "generation_card": (
        number,
        (
            "pci/gpu link info/pcie generation/device max",
            "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",
        ),
    ),
    "width_current": (
        number,
        ("pci/gpu link info/link width/current", "pci/pci_gpu_link_info/link_widths/current_link_width"),
    ),
    "width_max": (
        number,
        ("pci/gpu link info/link width/max", "pci/pci_gpu_link_info/link_widths/max_link_width"),
    ),
    "performance_state": (_state, ("performance state", "performance_state")),
    "utilization_percent": (number, ("utilization/gpu", "utilization/gpu_util")),
    "memory_total_mib": (number, ("fb memory usage/total", "fb_memory_usage/total")),
    "memory_used_mib": (number, ("fb memory usage/used", "fb_memory_usage/used")),
    "bar1_total_mib": (number, ("bar1 memory usage/total", "bar1_memory_usage/total")),
    "power_usage_watts": (
        number,
        (
            "gpu power readings/average power draw",
            "gpu power readings/instantaneous power draw",
            "gpu power readings/power draw",
            "power readings/power draw",
            "gpu_power_readings/average_power_draw",
            "gpu_power_readings/instant_power_draw",
            "gpu_power_readings/power_draw",
            "power_readings/power_draw",
        ),
    ),
    "power_limit_watts": (
        number,
        (
            "gpu power readings/current power limit",
            "power readings/enforced power limit",
            "gpu_power_readings/current_power_limit",
            "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
    ),
    "power_default_watts": (
        number,
        (
            "gpu power readings/default power limit",
            "power readings/default power limit",
            "gpu_power_readings/default_power_limit",
            "power_readings/default_power_limit",
        ),
    ),
    "temperature_celsius": (number, ("temperature/gpu current temp", "temperature/gpu_temp")),
    "temperature_memory_celsius": (number, ("temperature/memory current temp", "temperature/memory_temp")),
    "temperature_memory_max_celsius": (
        number,
        ("temperature/memory max operating temp", "temperature/gpu_temp_max_mem_threshold"),
    ),
    "ecc": (flag, ("ecc mode/current", "ecc_mode/current_ecc")),
    "remap_pending": (flag, ("remapped rows/pending", "remapped_rows/remapped_row_pending")),
    "remap_failure": (
        flag,
        ("remapped rows/remapping failure occurred", "remapped_rows/remapped_row_failure"),
    ),
    "remapped_uncorrectable": (
        number,
        ("remapped rows/uncorrectable error", "remapped_rows/remapped_row_unc"),
    ),
    "banks_without_spare": (
        number,
        (
            "remapped rows/bank remap availability histogram/none",
            "remapped_rows/row_remapper_histogram/row_remapper_histogram_none",
        ),
    ),
    "mig": (flag, ("mig mode/current", "mig_mode/current_mig")),
    "mig_pending": (flag, ("mig mode/pending", "mig_mode/pending_mig")),
    "recovery_action": (_recovery, ("gpu recovery action", "gpu_recovery_action")),
    "fabric_state": (_word, ("fabric/state", "fabric/state")),
    "fan": (lambda text: text.strip() if text else None, ("fan speed", "fan_speed")),
}

_REASONS = {
    "idle": "idle",
    "gpu_idle": "idle",
    "applications clocks setting": "application clocks",
    "sw power cap": "software power cap",
    "sw power capping": "software power cap",
    "hw slowdown": "hardware slowdown",
    "hw thermal slowdown": "hardware thermal slowdown",
    "hw power brake slowdown": "hardware power brake",
    "hw power brake": "hardware power brake",
    "hw power braking": "hardware power brake",
    "sw thermal slowdown": "software thermal slowdown",
    "sync boost": "sync boost",
    "display clock setting": "display clock",
    "display clocks setting": "display clock",
}
"""Reason names of `nvidia-smi -q` up to 530, 535 and later, and of the XML without their prefix."""


def gpu_from(paths: Paths, address: str, index: int | None) -> Gpu:
    """Build a GPU from one block. A block full of "GPU is lost" or "Unknown Error" is a lost GPU."""
    gone = _lost(paths)
    if gone:
        return Gpu(bus_id=bus_id(address) or None, index=index, name=value(paths.get("product name")), lost=gone)
    fields = {name: _first(paths, read, keys) for name, (read, keys) in TEXT.items()}
    return Gpu(
        bus_id=bus_id(address) or None,
        index=index,
        slowdowns=_slowdowns(paths),
        ecc_uncorrected_volatile=_uncorrected(paths, "volatile"),
        ecc_uncorrected_aggregate=_uncorrected(paths, "aggregate"),
        **fields,
    )


def _first(paths: Paths, read: Reader, keys: tuple[str, ...]) -> Any:
    return next((found for key in keys if (found := read(paths.get(key))) is not None), None)


_SIGNS_OF_LIFE = 3
"""Values that read as lost before a block counts as lost: single fields read "Unknown Error" on sound
cards.
"""


def _lost(paths: Paths) -> str | None:
    gone = [text.strip() for text in paths.values() if lost(text) and "ERR!" not in text]
    alive = any(paths.get(key) and value(paths[key]) for key in ("performance state", "performance_state"))
    return gone[0] if len(gone) >= _SIGNS_OF_LIFE and not alive else None


def _slowdowns(paths: Paths) -> frozenset[str] | None:
    states = {}
    for path, text in paths.items():
        parts = re.match(r"(?:clocks (?:throttle|event) reasons|clocks_(?:throttle|event)_reasons)/(.*)", path)
        if parts:
            states[_reason(parts[1])] = flag(text)
    seen = {name: state for name, state in states.items() if name and state is not None}
    return frozenset(name for name, state in seen.items() if state) if seen else None


def _reason(path: str) -> str:
    bare = re.sub(r"^clocks_(?:throttle|event)_reason_", "", path.rsplit("/", 1)[-1])
    return _REASONS.get(bare) or _REASONS.get(bare.replace("_", " "), "")


def _uncorrected(paths: Paths, period: str) -> int | None:
    """Return the uncorrected errors of one period: the sum over SRAM and DRAM, or the old form's total."""
    prefix = re.compile(rf"(?:ecc errors|ecc_errors)/{period}/(.*)")
    counts = [
        count
        for path, text in paths.items()
        if (found := prefix.fullmatch(path)) and "uncorrectable" in found[1] and "threshold" not in found[1]
        if (count := number(text)) is not None
    ]
    return sum(counts) if counts else None
