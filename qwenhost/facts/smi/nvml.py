"""GPU facts from the probe's NVML reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qwenhost.facts.gpus import NVML, SLOWDOWNS, Gpu, Gpus
from qwenhost.facts.reading import bus_id
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

Device = Mapping[str, Any]

_RECOVERY = {0: "none", 1: "gpu reset", 2: "node reboot", 3: "drain p2p", 4: "drain and reset"}
"""nvmlDeviceGpuRecoveryAction_t (nvml.h)."""

_VIRTUALIZATION = {1: "pass-through", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
"""nvmlGpuVirtualizationMode_t (nvml.h); 0 is none."""

LOST = ("GPU_IS_LOST", "RESET_REQUIRED", "UNKNOWN")
"""NVML errors in place of a device that mean that the GPU itself does not answer."""


def devices(capture: Capture) -> list[Device]:
    """Return the devices of an NVML capture; raises Unparsable when NVML did not start."""
    answer = json.loads(capture.text)
    if answer.get("init") != "SUCCESS":
        raise Unparsable(f"NVML did not start: {answer.get('init')}")
    return list(answer["devices"])


def get(device: Device, name: str) -> Any:
    """Return a field, or None where NVML answered with an error or not at all."""
    value = device.get(name)
    return None if isinstance(value, Mapping) and "error" in value else value


@parses(NVML)
def gpus_from_nvml(capture: Capture) -> Gpus:
    """Parse the devices that NVML lists."""
    found = tuple(_gpu(device) for device in devices(capture))
    return Gpus(found, len(found))


def _gpu(device: Device) -> Gpu:
    lost = _lost(device)
    address = get(device, "bus_id")
    if lost:
        return Gpu(index=device["index"], bus_id=bus_id(address or "") or None, lost=lost)
    rows, banks = get(device, "remapped_rows") or {}, get(device, "row_remapper_banks") or {}
    return Gpu(
        bus_id=bus_id(address or "") or None,
        index=device["index"],
        device_id=_pci_id(get(device, "pci_device_id")),
        subsystem_id=_pci_id(get(device, "pci_subsystem_id")),
        persistence=_flag(get(device, "persistence_mode")),
        slowdowns=_slowdowns(get(device, "clocks_event_reasons")),
        ecc=_flag(get(device, "ecc_mode_current")),
        ecc_pending=_flag(get(device, "ecc_mode_pending")),
        retirement_pending=_flag(get(device, "retired_pages_pending")),
        sram_threshold_exceeded=_flag((get(device, "sram_errors") or {}).get("threshold_exceeded")),
        remaps_rows=_remaps(device),
        remap_pending=_flag(rows.get("pending")),
        remap_failure=_flag(rows.get("failure")),
        remapped_uncorrectable=rows.get("uncorrectable"),
        banks_low_on_spares=banks.get("low"),
        banks_without_spare=banks.get("none"),
        inforom_valid=_inforom(device),
        virtualization=_VIRTUALIZATION.get(get(device, "virtualization_mode")),
        mig=_flag(get(device, "mig_mode_current")),
        mig_pending=_flag(get(device, "mig_mode_pending")),
        cpu_affinity=_indices(get(device, "cpu_affinity")),
        recovery_action=_RECOVERY.get(get(device, "recovery_action")),
        **{field: get(device, name) for field, name in _SAME.items()},
        **_memory(device),
        **_scaled(device),
    )


_SAME = {
    "name": "name",
    "uuid": "uuid",
    "serial": "serial",
    "vbios": "vbios_version",
    "inforom_image": "inforom_image_version",
    "board_part": "board_part_number",
    "gsp_firmware": "gsp_firmware_version",
    "generation_current": "link_generation_current",
    "generation_max": "link_generation_max",
    "generation_card": "link_generation_gpu_max",
    "width_current": "link_width_current",
    "width_max": "link_width_max",
    "performance_state": "performance_state",
    "utilization_percent": "utilization_gpu_percent",
    "temperature_celsius": "temperature_gpu_celsius",
    "temperature_max_celsius": "temperature_threshold_gpu_max_celsius",
    "temperature_slowdown_celsius": "temperature_threshold_slowdown_celsius",
    "margin_celsius": "temperature_margin_celsius",
    "margin_max_celsius": "temperature_tlimit_gpu_max_celsius",
    "margin_slowdown_celsius": "temperature_tlimit_slowdown_celsius",
    "temperature_memory_celsius": "temperature_memory_celsius",
    "temperature_memory_max_celsius": "temperature_threshold_memory_max_celsius",
    "clock_graphics_mhz": "clock_graphics_mhz",
    "clock_application_mhz": "clock_application_graphics_mhz",
    "clock_default_mhz": "clock_default_application_graphics_mhz",
    "ecc_uncorrected_volatile": "ecc_uncorrected_volatile",
    "ecc_uncorrected_aggregate": "ecc_uncorrected_aggregate",
    "retired_pages_corrected": "retired_pages_corrected",
    "retired_pages_uncorrected": "retired_pages_uncorrected",
    "numa_node": "numa_node",
}

_SCALED = {
    "memory_total_mib": ("memory_total_bytes", 1 << 20),
    "memory_reserved_mib": ("memory_reserved_bytes", 1 << 20),
    "bar1_total_mib": ("bar1_total_bytes", 1 << 20),
    "power_usage_watts": ("power_usage_milliwatts", 1000),
    "power_limit_watts": ("power_limit_enforced_milliwatts", 1000),
    "power_default_watts": ("power_limit_default_milliwatts", 1000),
}


def _lost(device: Device) -> str | None:
    errors = [value["error"] for value in device.values() if isinstance(value, Mapping) and "error" in value]
    gone = [device["error"]] if isinstance(device.get("error"), str) else []
    return next((error for error in [*gone, *errors] if error in LOST[:2]), gone[0] if gone else None)


def _pci_id(raw: Any) -> str | None:
    """Return the device half of NVML's combined id 0x<device><vendor>, given as number or hexadecimal
    text.
    """
    if raw is None:
        return None
    number = int(raw, 16) if isinstance(raw, str) else int(raw)
    return f"{number >> 16:04x}"


def error(device: Device, name: str) -> str:
    """Return the name of NVML's error in place of a field; empty where there is a value, or no such field."""
    raw = device.get(name)
    return str(raw["error"]) if isinstance(raw, Mapping) and "error" in raw else ""


def _remaps(device: Device) -> bool | None:
    if error(device, "remapped_rows"):
        return False if error(device, "remapped_rows") == "NOT_SUPPORTED" else None
    return True if "remapped_rows" in device else None


def _inforom(device: Device) -> bool | None:
    """Return NVML's judgement of the checksums; None where it was not asked, or could not tell."""
    if error(device, "inforom_valid"):
        return False if error(device, "inforom_valid") == "CORRUPTED_INFOROM" else None
    return _flag(device.get("inforom_valid"))


def _memory(device: Device) -> dict[str, Any]:
    """Return the use by programs: the old query, which is the one asked, counts the driver's own with it."""
    used, kept = get(device, "memory_used_bytes"), get(device, "memory_reserved_bytes")
    return {"memory_used_mib": None if used is None or kept is None else max(used - kept, 0) >> 20}


def _flag(raw: Any) -> bool | None:
    return None if raw is None else bool(raw)


def _scaled(device: Device) -> dict[str, Any]:
    raw = {field: (get(device, name), unit) for field, (name, unit) in _SCALED.items()}
    return {field: None if value is None else round(value / unit) for field, (value, unit) in raw.items()}


def _indices(raw: Any) -> tuple[int, ...] | None:
    return None if raw is None else tuple(raw)


def _slowdowns(raw: Any) -> frozenset[str] | None:
    return None if raw is None else frozenset(name for bit, name in SLOWDOWNS.items() if raw & bit)
