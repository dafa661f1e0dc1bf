"""From paths of `nvidia-smi -q` (text and XML) to fields of a GPU, one table for both.

The spelling of a key changed over the years, so that a field lists all its paths, newest first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from qwenhost.facts.reading import flag, number, value

Reader = Callable[[str | None], Any]


def word(text: str | None) -> str | None:
    """Return a printed value in lower case."""
    bare = value(text)
    return bare.lower() if bare else None


def there(text: str | None) -> bool | None:
    """Return false for a section that is printed as N/A in place of its lines, true for one with lines."""
    return None if text is None else text.strip().lower() not in ("n/a", "[n/a]")


def pci_id(text: str | None) -> str | None:
    """Return the device half of 0x<device><vendor>."""
    bare = re.search(r"(?:0x)?([0-9a-fA-F]{4})[0-9a-fA-F]{4}\b", value(text) or "")
    return bare[1].lower() if bare else None


def state(text: str | None) -> int | None:
    """Return the number of a performance state, such as 0 for P0."""
    bare = value(text)
    return int(bare[1:]) if bare and re.fullmatch(r"P\d+", bare) else None


_RECOVERY = {
    "reset": "gpu reset",
    "gpu reset": "gpu reset",
    "reboot": "node reboot",
    "node reboot": "node reboot",
}


def recovery(text: str | None) -> str | None:
    """Return the action that the driver asks for, in one spelling; "none" is one of them."""
    if text is not None and text.strip().lower() == "none":
        return "none"
    action = word(text)
    return _RECOVERY.get(action, action.replace("+", " and ")) if action else None


KEYS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "name": (value, ("product name", "product_name")),
    "uuid": (value, ("gpu uuid", "uuid")),
    "serial": (value, ("serial number", "serial")),
    "device_id": (pci_id, ("pci/device id", "pci/pci_device_id")),
    "subsystem_id": (pci_id, ("pci/sub system id", "pci/pci_sub_system_id")),
    "vbios": (value, ("vbios version", "vbios_version")),
    "inforom_image": (value, ("inforom version/image version", "inforom_version/img_version")),
    "board_part": (value, ("board part number", "board_part_number")),
    "gsp_firmware": (value, ("gsp firmware version", "gsp_firmware_version")),
    "persistence": (flag, ("persistence mode", "persistence_mode")),
    "virtualization": (
        word,
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
    "performance_state": (state, ("performance state", "performance_state")),
    "utilization_percent": (number, ("utilization/gpu", "utilization/gpu_util")),
    "memory_total_mib": (number, ("fb memory usage/total", "fb_memory_usage/total")),
    "memory_reserved_mib": (number, ("fb memory usage/reserved", "fb_memory_usage/reserved")),
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
            "gpu power readings/gpu ceiling power limit/current power limit",
            "gpu power readings/current power limit",
            "power readings/enforced power limit",
            "gpu_power_readings/gpu_ceiling_power_limit/current_power_limit",
            "gpu_power_readings/current_power_limit",
            "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
    ),
    "power_default_watts": (
        number,
        (
            "gpu power readings/gpu ceiling power limit/default power limit",
            "gpu power readings/default power limit",
            "power readings/default power limit",
            "gpu_power_readings/gpu_ceiling_power_limit/default_power_limit",
            "gpu_power_readings/default_power_limit",
            "power_readings/default_power_limit",
        ),
    ),
    "temperature_celsius": (number, ("temperature/gpu current temp", "temperature/gpu_temp")),
    "temperature_max_celsius": (
        number,
        ("temperature/gpu max operating temp", "temperature/gpu_temp_max_gpu_threshold"),
    ),
    "temperature_slowdown_celsius": (
        number,
        ("temperature/gpu slowdown temp", "temperature/gpu_temp_slow_threshold"),
    ),
    "margin_celsius": (
        number,
        (
            "temperature/gpu current t.limit temp",
            "temperature/gpu t.limit temp",
            "temperature/gpu_temp_tlimit",
        ),
    ),
    "margin_max_celsius": (
        number,
        (
            "temperature/gpu max operating t.limit temp specification",
            "temperature/gpu max operating t.limit temp",
            "temperature/gpu_temp_max_gpu_tlimit_threshold",
        ),
    ),
    "margin_slowdown_celsius": (
        number,
        (
            "temperature/gpu slowdown t.limit temp specification",
            "temperature/gpu slowdown t.limit temp",
            "temperature/gpu_temp_slow_tlimit_threshold",
        ),
    ),
    "temperature_memory_celsius": (number, ("temperature/memory current temp", "temperature/memory_temp")),
    "temperature_memory_max_celsius": (
        number,
        ("temperature/memory max operating temp", "temperature/gpu_temp_max_mem_threshold"),
    ),
    "ecc": (flag, ("ecc mode/current", "ecc_mode/current_ecc")),
    "ecc_pending": (flag, ("ecc mode/pending", "ecc_mode/pending_ecc")),
    "sram_threshold_exceeded": (
        flag,
        ("ecc errors/aggregate/sram threshold exceeded", "ecc_errors/aggregate/sram_threshold_exceeded"),
    ),
    "channel_repair_pending": (
        flag,
        ("ecc errors/channel repair pending", "ecc_errors/channel_repair_pending"),
    ),
    "tpc_repair_pending": (flag, ("ecc errors/tpc repair pending", "ecc_errors/tpc_repair_pending")),
    "unrepairable_memory": (flag, ("ecc errors/unrepairable memory", "ecc_errors/unrepairable_memory")),
    "retired_pages_corrected": (
        number,
        ("retired pages/single bit ecc", "retired_pages/multiple_single_bit_retirement/retired_count"),
    ),
    "retired_pages_uncorrected": (
        number,
        ("retired pages/double bit ecc", "retired_pages/double_bit_retirement/retired_count"),
    ),
    "retirement_pending": (
        flag,
        (
            "retired pages/pending page blacklist",
            "retired_pages/pending_blacklist",
            "retired_pages/pending_retirement",
        ),
    ),
    "remaps_rows": (there, ("remapped rows", "remapped_rows")),
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
    "banks_low_on_spares": (
        number,
        (
            "remapped rows/bank remap availability histogram/low",
            "remapped_rows/row_remapper_histogram/row_remapper_histogram_low",
        ),
    ),
    "clock_graphics_mhz": (number, ("clocks/graphics", "clocks/graphics_clock")),
    "clock_application_mhz": (number, ("applications clocks/graphics", "applications_clocks/graphics_clock")),
    "clock_default_mhz": (
        number,
        ("default applications clocks/graphics", "default_applications_clocks/graphics_clock"),
    ),
    "mig": (flag, ("mig mode/current", "mig_mode/current_mig")),
    "mig_pending": (flag, ("mig mode/pending", "mig_mode/pending_mig")),
    "recovery_action": (recovery, ("gpu recovery action", "gpu_recovery_action")),
    "fabric_state": (word, ("fabric/state",)),
    "fabric_status": (word, ("fabric/status",)),
    "fan": (lambda text: text.strip() if text else None, ("fan speed", "fan_speed")),
}
