"""GPU facts from `nvidia-smi --query-gpu=... --format=csv` and its like; the header names the columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from qwenhost.facts.gpus import CSV, SLOWDOWNS, Gpu, Gpus
from qwenhost.facts.reading import bus_id, flag, lost, number, plain, value
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.fields import slowdowns
from qwenhost.facts.smi.keys import Reader, pci_id, recovery, state, word
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

Row = Mapping[str, str]
"""Column, without its unit, and cell."""


def _address(text: str | None) -> str | None:
    return bus_id(text or "") or None


COLUMNS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "index": (number, ("index",)),
    "bus_id": (_address, ("pci.bus_id", "gpu_bus_id")),
    "name": (value, ("name", "gpu_name")),
    "uuid": (value, ("uuid", "gpu_uuid")),
    "serial": (value, ("serial", "gpu_serial")),
    "device_id": (pci_id, ("pci.device_id",)),
    "vbios": (value, ("vbios_version",)),
    "inforom_image": (value, ("inforom.img", "inforom.image")),
    "persistence": (flag, ("persistence_mode",)),
    "generation_current": (number, ("pcie.link.gen.gpucurrent", "pcie.link.gen.current")),
    "generation_max": (number, ("pcie.link.gen.max",)),
    "generation_card": (number, ("pcie.link.gen.gpumax",)),
    "width_current": (number, ("pcie.link.width.current",)),
    "width_max": (number, ("pcie.link.width.max",)),
    "performance_state": (state, ("pstate",)),
    "utilization_percent": (number, ("utilization.gpu",)),
    "memory_total_mib": (number, ("memory.total",)),
    "memory_used_mib": (number, ("memory.used",)),
    "memory_reserved_mib": (number, ("memory.reserved",)),
    "power_usage_watts": (number, ("power.draw", "power.draw.average", "power.draw.instant")),
    "power_limit_watts": (number, ("enforced.power.limit", "power.limit")),
    "power_default_watts": (number, ("power.default_limit",)),
    "temperature_celsius": (number, ("temperature.gpu",)),
    "margin_celsius": (number, ("temperature.gpu.tlimit",)),
    "temperature_memory_celsius": (number, ("temperature.memory",)),
    "clock_graphics_mhz": (number, ("clocks.current.graphics", "clocks.gr")),
    "clock_application_mhz": (number, ("clocks.applications.graphics", "clocks.applications.gr")),
    "clock_default_mhz": (number, ("clocks.default_applications.graphics", "clocks.default_applications.gr")),
    "ecc": (flag, ("ecc.mode.current",)),
    "ecc_pending": (flag, ("ecc.mode.pending",)),
    "ecc_uncorrected_volatile": (number, ("ecc.errors.uncorrected.volatile.total",)),
    "ecc_uncorrected_aggregate": (number, ("ecc.errors.uncorrected.aggregate.total",)),
    "sram_threshold_exceeded": (flag, ("ecc.errors.uncorrected.aggregate.sram.thresholdexceeded",)),
    "remap_pending": (flag, ("remapped_rows.pending",)),
    "remap_failure": (flag, ("remapped_rows.failure",)),
    "remapped_uncorrectable": (number, ("remapped_rows.uncorrectable",)),
    "banks_low_on_spares": (number, ("remapped_rows.histogram.low",)),
    "banks_without_spare": (number, ("remapped_rows.histogram.none",)),
    "retired_pages_corrected": (number, ("retired_pages.single_bit_ecc.count",)),
    "retired_pages_uncorrected": (number, ("retired_pages.double_bit.count",)),
    "retirement_pending": (flag, ("retired_pages.pending",)),
    "mig": (flag, ("mig.mode.current",)),
    "mig_pending": (flag, ("mig.mode.pending",)),
    "recovery_action": (recovery, ("gpu_recovery_action",)),
    "fabric_state": (word, ("fabric.state",)),
    "fabric_status": (word, ("fabric.status",)),
}


@parses(CSV, trust=2)
def gpus_from_csv(capture: Capture) -> Gpus:
    """Parse the rows; of a GPU that was sampled several times the last counts. Processes are no GPUs."""
    found = {_key(row): _gpu(row) for row in rows(capture) if "pid" not in row}
    if not found or "" in found:
        raise Unparsable("no column that tells GPUs apart, or no row")
    return Gpus(tuple(found.values()))


def rows(capture: Capture) -> Iterator[Row]:
    """Yield each row below a header, which may come again where several answers were put into one file."""
    header: list[str] = []
    for line in plain(capture.text).splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if CSV.recognises(line):
            header = [re.sub(r" \[.*\]$", "", cell).lower() for cell in cells]
        elif header and len(cells) == len(header):
            yield dict(zip(header, cells, strict=True))


def _key(row: Row) -> str:
    columns = ("pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid", "index")
    return next((row[column] for column in columns if row.get(column)), "")


def _gpu(row: Row) -> Gpu:
    told: dict[str, Any] = {name: _first(row, read, columns) for name, (read, columns) in COLUMNS.items()}
    gone = next((cell for cell in row.values() if lost(cell)), None)
    if gone and told["performance_state"] is None and told["memory_total_mib"] is None:
        return Gpu(bus_id=told["bus_id"], index=told["index"], uuid=told["uuid"], lost=gone)
    return Gpu(slowdowns=_slowdowns(row), **told)


def _first(row: Row, read: Reader, columns: tuple[str, ...]) -> Any:
    return next((found for column in columns if (found := read(row.get(column))) is not None), None)


_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(?!supported)(\w+)")


def _slowdowns(row: Row) -> frozenset[str] | None:
    """Return the active reasons, from their bits or from a column each."""
    told = {found[1]: cell for column, cell in row.items() if (found := _REASON.fullmatch(column))}
    bits = re.fullmatch(r"0x[0-9a-fA-F]+", told.pop("active", ""))
    if bits:
        return frozenset(name for bit, name in SLOWDOWNS.items() if int(bits[0], 16) & bit)
    return slowdowns({f"clocks event reasons/{name.replace('_', ' ')}": cell for name, cell in told.items()})
