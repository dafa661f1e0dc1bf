"""Sections of `nvidia-smi -q` that change while a GPU works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .machine import NOT_AVAILABLE, Gpu, switched, watts
from .nodes import amounts

if TYPE_CHECKING:
    from .nodes import Node

REASONS = (
    ("Idle", "gpu_idle", 0x1),
    ("Applications Clocks Setting", "applications_clocks_setting", 0x2),
    ("SW Power Cap", "sw_power_cap", 0x4),
    ("HW Slowdown", "hw_slowdown", 0x8),
    ("    HW Thermal Slowdown", "hw_thermal_slowdown", 0x40),
    ("    HW Power Brake Slowdown", "hw_power_brake_slowdown", 0x80),
    ("Sync Boost", "sync_boost", 0x10),
    ("SW Thermal Slowdown", "sw_thermal_slowdown", 0x20),
    ("Display Clock Setting", "display_clocks_setting", 0x100),
)
COUNTERS = (
    ("SW Power Capping", "sw_power_cap", 74),
    ("Sync Boost", "sync_boost", 76),
    ("SW Thermal Slowdown", "sw_therm_slowdown", 269),
    ("HW Thermal Slowdown", "hw_therm_slowdown", 270),
    ("HW Power Braking", "hw_power_brake", 271),
)


def events(gpu: Gpu) -> list[Node]:
    """Return what holds the clocks back, and for how long so far."""
    active = gpu.number("events")
    reasons: list[Node] = [
        (label, f"clocks_event_reason_{tag}", "Active" if active & bit else "Not Active")
        for label, tag, bit in REASONS
    ]
    counters: list[Node] = [
        (label, f"clocks_event_reasons_counters_{tag}", f"{gpu.number(f'event_ns_{field}') // 1000} us")
        for label, tag, field in COUNTERS
    ]
    return [
        ("Clocks Event Reasons", "clocks_event_reasons", reasons),
        ("Clocks Event Reasons Counters", "clocks_event_reasons_counters", counters),
    ]


def memory(gpu: Gpu) -> list[Node]:
    """Return frame buffer and BAR1."""
    total, used, kept = (gpu.number(key) for key in ("memory_mib", "used_mib", "reserved_mib"))
    return [
        ("FB Memory Usage", "fb_memory_usage", amounts(total, used, kept)),
        ("BAR1 Memory Usage", "bar1_memory_usage", amounts(gpu.number("bar1_mib"), 1)),
        ("Conf Compute Protected Memory Usage", "cc_protected_memory_usage", amounts(0, 0)),
    ]


def utilization(gpu: Gpu) -> Node:
    """Return utilisation, not available in MIG mode."""
    value = NOT_AVAILABLE if gpu.mig else f"{gpu.number('utilization')} %"
    rest = NOT_AVAILABLE if gpu.mig else "0 %"
    names = (
        ("Memory", "memory"),
        ("Encoder", "encoder"),
        ("Decoder", "decoder"),
        ("JPEG", "jpeg"),
        ("OFA", "ofa"),
    )
    nodes: list[Node] = [(label, f"{tag}_util", rest) for label, tag in names]
    return ("Utilization", "utilization", [("GPU", "gpu_util", value), *nodes])


def _counts(gpu: Gpu, span: str) -> list[Node]:
    def count(place: str, kind: str) -> str:
        return str(gpu.number(f"ecc_{span}_{place}_{kind}"))

    return [
        ("SRAM Correctable", "sram_correctable", count("sram", "correctable")),
        ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", count("sram", "uncorrectable")),
        ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "0"),
        ("DRAM Correctable", "dram_correctable", count("dram", "correctable")),
        ("DRAM Uncorrectable", "dram_uncorrectable", count("dram", "uncorrectable")),
    ]


def ecc(gpu: Gpu) -> list[Node]:
    """Return ECC mode and error counters."""
    exceeded = "Yes" if gpu.number("sram_threshold_exceeded") else "No"
    sources = (
        ("L2", "l2"),
        ("SM", "sm"),
        ("Microcontroller", "microcontroller"),
        ("PCIE", "pcie"),
        ("Other", "other"),
    )
    mode, pending = (switched(gpu.number(key) == 1) for key in ("ecc_mode", "ecc_pending"))
    threshold: Node = ("SRAM Threshold Exceeded", "sram_threshold_exceeded", exceeded)
    return [
        ("ECC Mode", "ecc_mode", [("Current", "current_ecc", mode), ("Pending", "pending_ecc", pending)]),
        (
            "ECC Errors",
            "ecc_errors",
            [
                ("Volatile", "volatile", _counts(gpu, "volatile")),
                ("Aggregate", "aggregate", [*_counts(gpu, "aggregate"), threshold]),
                (
                    "Aggregate Uncorrectable SRAM Sources",
                    "aggregate_uncorrectable_sram_sources",
                    [(f"SRAM {label}", f"sram_{tag}", "0") for label, tag in sources],
                ),
            ],
        ),
    ]


def retired() -> Node:
    """Return retired pages, which A100 does not have."""
    causes = (
        ("Single Bit ECC", "multiple_single_bit_retirement"),
        ("Double Bit ECC", "double_bit_retirement"),
    )
    hidden: list[Node] = [
        ("", tag, [("", "retired_count", NOT_AVAILABLE), ("", "retired_pagelist", NOT_AVAILABLE)])
        for _, tag in causes
    ]
    shown: list[Node] = [(label, "", NOT_AVAILABLE) for label, _ in causes]
    last: Node = ("Pending Page Blacklist", "pending_blacklist", NOT_AVAILABLE)
    return (
        "Retired Pages",
        "retired_pages",
        [*shown, *hidden, last, ("", "pending_retirement", NOT_AVAILABLE)],
    )


def remapped(gpu: Gpu) -> Node:
    """Return remapped rows, not available while MIG instances exist."""
    if gpu.instances():
        return ("Remapped Rows", "remapped_rows", NOT_AVAILABLE)
    yes = ("No", "Yes")
    high = gpu.number("remap_banks_high")
    banks = (
        ("Max", gpu.number("remap_banks") - high),
        ("High", high),
        ("Partial", 0),
        ("Low", 0),
        ("None", 0),
    )
    histogram: list[Node] = [
        (label, f"row_remapper_histogram_{label.lower()}", f"{count} bank(s)") for label, count in banks
    ]
    return (
        "Remapped Rows",
        "remapped_rows",
        [
            ("Correctable Error", "remapped_row_corr", gpu.text("remap_correctable")),
            ("Uncorrectable Error", "remapped_row_unc", gpu.text("remap_uncorrectable")),
            ("Pending", "remapped_row_pending", yes[gpu.number("remap_pending")]),
            ("Remapping Failure Occurred", "remapped_row_failure", yes[gpu.number("remap_failure")]),
            ("Bank Remap Availability Histogram", "row_remapper_histogram", histogram),
        ],
    )


def temperature(gpu: Gpu) -> Node:
    """Return temperatures and their thresholds."""
    rows = (
        ("GPU Current Temp", "gpu_temp", "temperature"),
        ("GPU T.Limit Temp", "gpu_temp_tlimit", ""),
        ("GPU Shutdown Temp", "gpu_temp_max_threshold", "temperature_shutdown"),
        ("GPU Slowdown Temp", "gpu_temp_slow_threshold", "temperature_slowdown"),
        ("GPU Max Operating Temp", "gpu_temp_max_gpu_threshold", "temperature_gpu_max"),
        ("GPU Target Temperature", "gpu_target_temperature", ""),
        ("Memory Current Temp", "memory_temp", "memory_temperature"),
        ("Memory Max Operating Temp", "gpu_temp_max_mem_threshold", "temperature_memory_max"),
    )
    nodes: list[Node] = [(label, tag, f"{gpu.text(key)} C" if key else NOT_AVAILABLE) for label, tag, key in rows]
    return ("Temperature", "temperature", nodes)


def power(gpu: Gpu) -> list[Node]:
    """Return power draw and limits."""
    rows = (
        ("Average Power Draw", "average_power_draw", ""),
        ("Instantaneous Power Draw", "instant_power_draw", "power_mw"),
        ("Current Power Limit", "current_power_limit", "power_limit_mw"),
        ("Requested Power Limit", "requested_power_limit", "power_limit_mw"),
        ("Default Power Limit", "default_power_limit", "power_default_mw"),
        ("Min Power Limit", "min_power_limit", "power_min_mw"),
        ("Max Power Limit", "max_power_limit", "power_max_mw"),
    )
    own: list[Node] = [
        (label, tag, f"{watts(gpu.number(key))} W" if key else NOT_AVAILABLE) for label, tag, key in rows
    ]
    module: list[Node] = [(label, tag, NOT_AVAILABLE) for label, tag, _ in rows]
    state_of: Node = ("", "power_state", f"P{gpu.number('performance_state')}")
    return [
        ("GPU Power Readings", "gpu_power_readings", [state_of, *own]),
        ("GPU Memory Power Readings", "gpu_memory_power_readings", module[:2]),
        ("Module Power Readings", "module_power_readings", [state_of, *module]),
        ("Power Smoothing", "power_smoothing", NOT_AVAILABLE),
    ]


def clocks(gpu: Gpu) -> list[Node]:
    """Return clocks."""
    names = (("Graphics", "graphics"), ("SM", "sm"), ("Memory", "memory"), ("Video", "video"))

    def group(prefix: str, kept: tuple[str, ...]) -> list[Node]:
        return [
            (label, f"{'mem' if key == 'memory' else key}_clock", f"{gpu.text(f'{prefix}_{key}_mhz')} MHz")
            for label, key in names
            if key in kept
        ]

    every, two = ("graphics", "sm", "memory", "video"), ("graphics", "memory")
    return [
        ("Clocks", "clocks", group("clock", every)),
        ("Applications Clocks", "applications_clocks", group("clock_app", two)),
        ("Default Applications Clocks", "default_applications_clocks", group("clock_app", two)),
        ("Max Clocks", "max_clocks", group("clock_max", every)),
        ("Max Customer Boost Clocks", "max_customer_boost_clocks", group("clock_max", ("graphics",))),
    ]


def fabric() -> Node:
    """Return the fabric section, which A100 does not have."""
    rows = (
        ("State", "state"),
        ("Status", "status"),
        ("CliqueId", "cliqueId"),
        ("ClusterUUID", "clusterUuid"),
    )
    return ("Fabric", "fabric", [(label, tag, NOT_AVAILABLE) for label, tag in rows])


def processes(gpu: Gpu) -> Node:
    """Return processes that hold the GPU."""
    rows: list[Node] = []
    for pid, name, mib in gpu.clients():
        rows.append(
            (
                "",
                "process_info",
                [
                    ("", "gpu_instance_id", NOT_AVAILABLE),
                    ("", "compute_instance_id", NOT_AVAILABLE),
                    ("", "pid", pid),
                    ("", "type", "C"),
                    ("", "process_name", name),
                    ("", "used_memory", f"{mib} MiB"),
                ],
            )
        )
        rows.append(("GPU instance ID", "", NOT_AVAILABLE))
        rows.append(("Compute instance ID", "", NOT_AVAILABLE))
        rows.append(("Process ID", "", pid))
        rows += [("    Type", "", "C"), ("    Name", "", name), ("    Used GPU Memory", "", f"{mib} MiB")]
    return ("Processes", "processes", rows or "None")
