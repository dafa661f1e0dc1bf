"""nvidia-smi --query-gpu and --query-compute-apps: comma separated values."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .errors import SmiError
from .machine import NOT_AVAILABLE, RECOVERY, Gpu, switched, watts

if TYPE_CHECKING:
    Reader = Callable[[Gpu], str]
    Field = tuple[str, Reader]
    """Unit and reader; the value comes without its unit."""

EVENTS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80, "sw_thermal_slowdown": 0x20,
    "sync_boost": 0x10,
}  # fmt: skip


def _key(key: str, unit: str = "") -> Field:
    return unit, lambda gpu: gpu.text(key)


def _fixed(text: str) -> Field:
    return "", lambda gpu: text


def _mode(key: str) -> Field:
    return "", lambda gpu: switched(gpu.number(key) == 1)


def _power(key: str) -> Field:
    return "W", lambda gpu: watts(gpu.number(key))


def _event(bit: int) -> Field:
    return "", lambda gpu: "Active" if gpu.number("events") & bit else "Not Active"


def _remap(key: str, yes_no: bool = False) -> Field:
    def read(gpu: Gpu) -> str:
        if gpu.instances():
            return "[N/A]"
        return ("Yes" if gpu.number(key) else "No") if yes_no else str(gpu.number(key))

    return "", read


def _utilization(key: str) -> Field:
    return "%", lambda gpu: "[N/A]" if gpu.mig else str(gpu.number(key))


def _memory_free(gpu: Gpu) -> str:
    return str(gpu.number("memory_mib") - gpu.number("reserved_mib") - gpu.number("used_mib"))


def _pci_id(key: str) -> Field:
    return "", lambda gpu: f"0x{gpu.number(key):04X}10DE"


def _count(gpu: Gpu) -> str:
    return str(
        sum(gpu.values.get(f"gpu{slot}.present", "1") == "1" for slot in range(int(gpu.values["gpu.count"])))
    )


def _fields() -> dict[str, Field]:
    fields: dict[str, Field] = {
        "timestamp": ("", lambda gpu: time.strftime("%Y/%m/%d %H:%M:%S.000")),
        "driver_version": ("", lambda gpu: gpu.values["driver.module_version"]),
        "count": ("", _count), "index": ("", lambda gpu: str(gpu.index)),
        "name": _key("name"), "gpu_name": _key("name"), "uuid": _key("uuid"), "gpu_uuid": _key("uuid"),
        "serial": _key("serial"), "gpu_serial": _key("serial"), "vbios_version": _key("vbios"),
        "board_part_number": _key("part"), "inforom.img": _key("inforom_image"),
        "inforom.oem": _key("inforom_oem"), "inforom.ecc": _key("inforom_ecc"),
        "module_id": _key("module_id"), "compute_cap": _fixed("8.0"),
        "pci.bus_id": ("", lambda gpu: gpu.bus_id), "gpu_bus_id": ("", lambda gpu: gpu.bus_id),
        "pci.device_id": _pci_id("device_id"), "pci.sub_device_id": _pci_id("subsystem_id"),
        "pci.domain": _fixed("0x0000"), "pci.bus": ("", lambda gpu: f"0x{gpu.bus_id[9:11]}"),
        "pcie.link.gen.current": _key("link_generation"), "pcie.link.gen.gpucurrent": _key("link_generation"),
        "pcie.link.gen.max": _key("link_generation_max"), "pcie.link.gen.gpumax": _key("link_generation_max"),
        "pcie.link.gen.hostmax": _key("link_generation_max"), "pcie.link.width.current": _key("link_width"),
        "pcie.link.width.max": _key("link_width_max"), "persistence_mode": _mode("persistence"),
        "fan.speed": _fixed("[N/A]"), "pstate": ("", lambda gpu: f"P{gpu.number('performance_state')}"),
        "memory.total": _key("memory_mib", "MiB"), "memory.used": _key("used_mib", "MiB"),
        "memory.reserved": _key("reserved_mib", "MiB"), "memory.free": ("MiB", _memory_free),
        "compute_mode": _fixed("Default"), "utilization.gpu": _utilization("utilization"),
        "utilization.memory": _utilization("utilization_memory"),
        "temperature.gpu": _key("temperature"), "temperature.memory": _key("memory_temperature"),
        "temperature.gpu.tlimit": _fixed(NOT_AVAILABLE), "power.management": _fixed("Enabled"),
        "power.draw": _power("power_mw"), "power.draw.instant": _power("power_mw"),
        "power.limit": _power("power_limit_mw"), "enforced.power.limit": _power("power_limit_mw"),
        "power.default_limit": _power("power_default_mw"), "power.min_limit": _power("power_min_mw"),
        "power.max_limit": _power("power_max_mw"), "ecc.mode.current": _mode("ecc_mode"),
        "ecc.mode.pending": _mode("ecc_pending"), "mig.mode.current": _mode("mig_mode"),
        "mig.mode.pending": _mode("mig_pending"), "gsp.mode.current": _mode("gsp"),
        "fabric.state": _fixed("[N/A]"), "fabric.status": _fixed("[N/A]"),
        "gpu_recovery_action": ("", lambda gpu: RECOVERY[gpu.number("recovery_action")]),
    }  # fmt: skip
    return {**fields, **_clocks(), **_errors(), **_reasons()}


def _clocks() -> dict[str, Field]:
    names = (
        ("graphics", "graphics"),
        ("sm", "sm"),
        ("mem", "memory"),
        ("memory", "memory"),
        ("video", "video"),
    )
    fields = {}
    for name, key in names:
        fields[f"clocks.current.{name}"] = fields[f"clocks.{name}"] = _key(f"clock_{key}_mhz", "MHz")
        fields[f"clocks.max.{name}"] = _key(f"clock_max_{key}_mhz", "MHz")
        fields[f"clocks.applications.{name}"] = _key(f"clock_app_{key}_mhz", "MHz")
    for short, name in (("gr", "graphics"), ("sm", "sm"), ("mem", "mem")):
        fields[f"clocks.{short}"] = fields[f"clocks.{name}"]
        fields[f"clocks.max.{short}"] = fields[f"clocks.max.{name}"]
        fields[f"clocks.applications.{short}"] = fields[f"clocks.applications.{name}"]
    return fields


def _errors() -> dict[str, Field]:
    fields: dict[str, Field] = {
        "remapped_rows.correctable": _remap("remap_correctable"),
        "remapped_rows.uncorrectable": _remap("remap_uncorrectable"),
        "remapped_rows.pending": _remap("remap_pending", yes_no=True),
        "remapped_rows.failure": _remap("remap_failure", yes_no=True),
        "retired_pages.pending": _fixed("[N/A]"),
        "retired_pages.single_bit_ecc.count": _fixed("[N/A]"),
        "retired_pages.double_bit.count": _fixed("[N/A]"),
    }
    for kind in ("corrected", "uncorrected"):
        for span in ("volatile", "aggregate"):
            fields[f"ecc.errors.{kind}.{span}.total"] = _total(kind, span)
            for place, name in (("dram", "device_memory"), ("dram", "dram"), ("sram", "sram")):
                fields[f"ecc.errors.{kind}.{span}.{name}"] = _counter(kind, span, place)
    return fields


def _counter(kind: str, span: str, place: str) -> Field:
    key = f"ecc_{span}_{place}_{kind.replace('ected', 'ectable')}"
    return "", lambda gpu: str(gpu.number(key))


def _total(kind: str, span: str) -> Field:
    parts = [_counter(kind, span, place)[1] for place in ("sram", "dram")]
    return "", lambda gpu: str(sum(int(part(gpu)) for part in parts))


def _reasons() -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for prefix in ("clocks_event_reasons", "clocks_throttle_reasons"):
        fields[f"{prefix}.supported"] = _fixed("0x00000000000001FF")
        fields[f"{prefix}.active"] = ("", lambda gpu: f"0x{gpu.number('events'):016X}")
        fields.update({f"{prefix}.{name}": _event(bit) for name, bit in EVENTS.items()})
    return fields


FIELDS = _fields()


def table(gpus: list[Gpu], names: list[str], form: str) -> str:
    """Return the values of `names` for each GPU; `form` is csv[,noheader][,nounits]. Raises SmiError."""
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        raise SmiError(f'Field "{unknown[0]}" is not a valid field to query.\n', 2)
    options = form.split(",")
    if options[0] != "csv":
        raise SmiError("--format: only csv is possible for a query", 2)
    units = "nounits" not in options
    heads = [f"{name} [{FIELDS[name][0]}]" if FIELDS[name][0] and units else name for name in names]
    lines = [] if "noheader" in options else [", ".join(heads)]
    lines += [", ".join(_cell(gpu, FIELDS[name], units) for name in names) for gpu in gpus]
    return "\n".join(lines) + "\n"


def _cell(gpu: Gpu, field: Field, units: bool) -> str:
    unit, reader = field
    text = reader(gpu)
    return f"{text} {unit}" if unit and units and not text.startswith("[") else text


def apps(gpus: list[Gpu], names: list[str], form: str) -> str:
    """Return the processes that hold a GPU, by the fields gpu_uuid, pid, process_name and used_memory."""
    lines = [] if "noheader" in form else [", ".join(names)]
    for gpu in gpus:
        for pid, name, mib in gpu.clients():
            row = {"gpu_uuid": gpu.text("uuid"), "gpu_bus_id": gpu.bus_id, "pid": pid, "process_name": name}
            row["name"], row["used_memory"] = name, mib if "nounits" in form else f"{mib} MiB"
            row["used_gpu_memory"] = row["used_memory"]
            lines.append(", ".join(row.get(field, "[N/A]") for field in names))
    return "\n".join(lines) + "\n" if lines else ""
