"""nvidia-smi -q and -q -x: one tree of values, shown as indented text or as XML. Form: R580."""

from __future__ import annotations

import time
from typing import List, Tuple, Union
from xml.sax.saxutils import escape

from .. import state
from .machine import NOT_AVAILABLE, RECOVERY, Gpu, MigDevice, cuda_version, switched, watts

Node = Tuple[str, str, Union[str, list]]  # type: ignore[type-arg]
"""Label of the text form, tag of the XML form, and a value or a list of nodes."""

COLUMN = 55
"""Column of the colon in R560 and later."""

ABOUT = "Written by the qwenhost lab's simulator"
SECTIONS = {
    "MEMORY": ("fb_memory_usage", "bar1_memory_usage"), "UTILIZATION": ("utilization",), "ECC": ("ecc_mode", "ecc_errors"),
    "TEMPERATURE": ("temperature",), "POWER": ("gpu_power_readings",), "PIDS": ("processes",),
    "CLOCK": ("clocks", "applications_clocks", "default_applications_clocks", "max_clocks"),
    "COMPUTE": ("compute_mode",), "PERFORMANCE": ("performance_state", "clocks_event_reasons"),
    "ROW_REMAPPER": ("remapped_rows",), "PAGE_RETIREMENT": ("retired_pages",),
}  # fmt: skip
REASONS = (
    ("Idle", "gpu_idle", 0x1), ("Applications Clocks Setting", "applications_clocks_setting", 0x2),
    ("SW Power Cap", "sw_power_cap", 0x4), ("HW Slowdown", "hw_slowdown", 0x8),
    ("    HW Thermal Slowdown", "hw_thermal_slowdown", 0x40),
    ("    HW Power Brake Slowdown", "hw_power_brake_slowdown", 0x80), ("Sync Boost", "sync_boost", 0x10),
    ("SW Thermal Slowdown", "sw_thermal_slowdown", 0x20), ("Display Clock Setting", "display_clocks_setting", 0x100),
)  # fmt: skip
COUNTERS = (
    ("SW Power Capping", "sw_power_cap", 74), ("Sync Boost", "sync_boost", 76),
    ("SW Thermal Slowdown", "sw_therm_slowdown", 269), ("HW Thermal Slowdown", "hw_therm_slowdown", 270),
    ("HW Power Braking", "hw_power_brake", 271),
)  # fmt: skip


def text(values: state.Values, gpus: List[Gpu], display: str = "") -> str:
    """Return the text form; `display` keeps only the named sections."""
    lines = ["", "==============NVSMI LOG==============", "", f"# {ABOUT}"]
    for label, _, value in _head(values):
        lines.append(f"{label:<{COLUMN}}: {value}")
    kept = {tag for name in display.split(",") for tag in SECTIONS.get(name.strip().upper(), ())}
    for gpu in gpus:
        lines.append(f"GPU {gpu.bus_id}")
        for node in tree(gpu):
            if not kept or node[1] in kept:
                lines += _lines(node, 4)
        lines.append("")
    return "\n".join(lines) + "\n"


def _lines(node: Node, indent: int) -> List[str]:
    label, _, value = node
    if not label:
        return []
    if isinstance(value, str):
        return [f"{' ' * indent + label:<{COLUMN}}: {value}"]
    return [f"{' ' * indent}{label}"] + [line for child in value for line in _lines(child, indent + 4)]


def xml(values: state.Values, gpus: List[Gpu]) -> str:
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


def _elements(node: Node, depth: int) -> List[str]:
    _, tag, value = node
    tabs = "\t" * depth
    if not tag:
        return []
    if isinstance(value, str):
        return [f"{tabs}<{tag}>{escape(value)}</{tag}>"]
    inner = [line for child in value for line in _elements(child, depth + 1)]
    return [f"{tabs}<{tag}>", *inner, f"{tabs}</{tag}>"]


def _head(values: state.Values) -> List[Node]:
    return [
        ("Timestamp", "timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        ("Driver Version", "driver_version", values["driver.module_version"]),
        ("CUDA Version", "cuda_version", cuda_version(values)),
        ("", "", ""),
        ("Attached GPUs", "attached_gpus", str(len(state.slots(values)))),
    ]


def tree(gpu: Gpu) -> List[Node]:
    """Return all sections of one GPU, in the order of the real tool."""
    return [
        *_identity(gpu), *_mig(gpu), *_board(gpu), _pci(gpu),
        ("Fan Speed", "fan_speed", NOT_AVAILABLE),
        ("Performance State", "performance_state", f"P{gpu.number('performance_state')}"),
        *_events(gpu), ("Sparse Operation Mode", "sparse_operation_mode", NOT_AVAILABLE),
        *_memory(gpu), ("Compute Mode", "compute_mode", "Default"), _utilization(gpu),
        *_ecc(gpu), _retired(), _remapped(gpu), _temperature(gpu), *_power(gpu), *_clocks(gpu), _fabric(),
        _processes(gpu), ("Capabilities", "capabilities", [("EGM", "egm", "disabled")]),
    ]  # fmt: skip


def _identity(gpu: Gpu) -> List[Node]:
    gone = "Requested functionality has been deprecated"
    return [
        ("Product Name", "product_name", gpu.text("name")), ("Product Brand", "product_brand", "NVIDIA"),
        ("Product Architecture", "product_architecture", "Ampere"), ("Display Mode", "display_mode", gone),
        ("Display Attached", "display_attached", "No"), ("Display Active", "display_active", "Disabled"),
        ("Persistence Mode", "persistence_mode", switched(gpu.number("persistence") == 1)),
        ("Addressing Mode", "addressing_mode", "HMM"),
    ]  # fmt: skip


def _mig(gpu: Gpu) -> List[Node]:
    modes: Node = ("MIG Mode", "mig_mode", [
        ("Current", "current_mig", switched(gpu.mig)),
        ("Pending", "pending_mig", switched(gpu.number("mig_pending") == 1)),
    ])  # fmt: skip
    devices = [_mig_device(gpu, device) for device in gpu.mig_devices()]
    if not devices:
        return [modes, ("MIG Device" if gpu.mig else "", "mig_devices", "None")]
    inner: List[Node] = [("", "mig_device", nodes) for nodes in devices]
    shown: List[Node] = [("MIG Device", "", nodes) for nodes in devices]
    return [modes, *shown, ("", "mig_devices", inner)]


def _mig_device(gpu: Gpu, device: MigDevice) -> List[Node]:
    profile = device.profile
    bar1 = gpu.number("bar1_mib") * profile.memory_slices // 8 - 1
    shared: List[Node] = [
        ("Multiprocessor count", "multiprocessor_count", str(14 * device.slices)),
        ("Copy Engine count", "copy_engine_count", str(profile.copy_engines)), ("Encoder count", "encoder_count", "0"),
        ("Decoder count", "decoder_count", str(profile.decoders)), ("OFA count", "ofa_count", str(profile.ofa)),
        ("JPG count", "jpg_count", str(profile.jpeg)),
    ]  # fmt: skip
    return [
        ("Index", "index", str(device.index)), ("GPU Instance ID", "gpu_instance_id", str(device.gpu_instance)),
        ("Compute Instance ID", "compute_instance_id", str(device.compute_instance)),
        ("Device Attributes", "device_attributes", [("Shared", "shared", shared)]),
        ("ECC Errors", "ecc_error_count", [
            ("Volatile", "volatile_count", [("SRAM Uncorrectable", "sram_uncorrectable", "0")]),
        ]),
        ("FB Memory Usage", "fb_memory_usage", _amounts(profile.memory_mib, 12, 0)),
        ("BAR1 Memory Usage", "bar1_memory_usage", _amounts(bar1, 0)),
    ]  # fmt: skip


def _amounts(total: int, used: int, reserved: int = -1) -> List[Node]:
    kept = max(reserved, 0)
    nodes: List[Node] = [("Total", "total", f"{total} MiB")]
    if reserved >= 0:
        nodes.append(("Reserved", "reserved", f"{reserved} MiB"))
    return [*nodes, ("Used", "used", f"{used} MiB"), ("Free", "free", f"{total - used - kept} MiB")]


def _pair(label: str, tag: str, suffix: str, value: str) -> Node:
    return (label, tag, [("Current", f"current_{suffix}", value), ("Pending", f"pending_{suffix}", value)])


def _board(gpu: Gpu) -> List[Node]:
    none = NOT_AVAILABLE
    platform = ("Chassis Serial Number", "Slot Number", "Tray Index", "Host ID", "Peer Type")
    nodes: List[Node] = [(label, label.lower().replace(" ", "_"), none) for label in platform]
    nodes += [("Module Id", "module_id", gpu.text("module_id")), ("GPU Fabric GUID", "gpu_fabric_guid", none)]
    return [
        ("Accounting Mode", "accounting_mode", "Disabled"),
        ("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000"),
        _pair("Driver Model", "driver_model", "dm", none),
        ("Serial Number", "serial", gpu.text("serial")), ("GPU UUID", "uuid", gpu.text("uuid")),
        ("Minor Number", "minor_number", gpu.text("minor")), ("VBIOS Version", "vbios_version", gpu.text("vbios")),
        ("MultiGPU Board", "multigpu_board", "No"), ("Board ID", "board_id", gpu.text("board_id")),
        ("Board Part Number", "board_part_number", gpu.text("part")),
        ("GPU Part Number", "gpu_part_number", gpu.text("gpu_part")), ("FRU Part Number", "gpu_fru_part_number", none),
        ("Platform Info", "platformInfo", nodes),
        ("Inforom Version", "inforom_version", [
            ("Image Version", "img_version", gpu.text("inforom_image")),
            ("OEM Object", "oem_object", gpu.text("inforom_oem")), ("ECC Object", "ecc_object", gpu.text("inforom_ecc")),
            ("Power Management Object", "pwr_object", none),
        ]),
        _pair("GPU Operation Mode", "gpu_operation_mode", "gom", none), ("GPU C2C Mode", "c2c_mode", none),
        ("GPU Virtualization Mode", "gpu_virtualization_mode", [
            ("Virtualization Mode", "virtualization_mode", "None"), ("Host VGPU Mode", "host_vgpu_mode", none),
            ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", none),
        ]),
        ("GPU Recovery Action", "gpu_recovery_action", RECOVERY[gpu.number("recovery_action")]),
        ("GSP Firmware Version", "gsp_firmware_version", gpu.values["driver.module_version"]),
        ("IBMNPU", "ibmnpu", [("Relaxed Ordering Mode", "relaxed_ordering_mode", none)]),
    ]  # fmt: skip


def _pci(gpu: Gpu) -> Node:
    top, now = gpu.text("link_generation_max"), gpu.text("link_generation")
    generation: List[Node] = [
        ("Max", "max_link_gen", top), ("Current", "current_link_gen", now),
        ("Device Current", "device_current_link_gen", now), ("Device Max", "max_device_link_gen", top),
        ("Host Max", "max_host_link_gen", top),
    ]  # fmt: skip
    width: List[Node] = [
        ("Max", "max_link_width", f"{gpu.text('link_width_max')}x"),
        ("Current", "current_link_width", f"{gpu.text('link_width')}x"),
    ]
    return ("PCI", "pci", [
        ("Bus", "pci_bus", f"0x{gpu.bus_id[9:11]}"), ("Device", "pci_device", "0x00"), ("Domain", "pci_domain", "0x0000"),
        ("Base Classcode", "pci_base_class", "0x3"), ("Sub Classcode", "pci_sub_class", "0x2"),
        ("Device Id", "pci_device_id", f"0x{gpu.number('device_id'):04X}10DE"), ("Bus Id", "pci_bus_id", gpu.bus_id),
        ("Sub System Id", "pci_sub_system_id", f"0x{gpu.number('subsystem_id'):04X}10DE"),
        ("GPU Link Info", "pci_gpu_link_info", [
            ("PCIe Generation", "pcie_gen", generation), ("Link Width", "link_widths", width),
        ]),
        ("Bridge Chip", "pci_bridge_chip", [
            ("Type", "bridge_chip_type", NOT_AVAILABLE), ("Firmware", "bridge_chip_fw", NOT_AVAILABLE),
        ]),
        ("Replays Since Reset", "replay_counter", gpu.text("pcie_replays")),
        ("Replay Number Rollovers", "replay_rollover_counter", gpu.text("pcie_rollovers")),
        ("Tx Throughput", "tx_util", NOT_AVAILABLE if gpu.mig else "350 KB/s"),
        ("Rx Throughput", "rx_util", NOT_AVAILABLE if gpu.mig else "300 KB/s"),
        ("Atomic Caps Outbound", "atomic_caps_outbound", NOT_AVAILABLE),
        ("Atomic Caps Inbound", "atomic_caps_inbound", NOT_AVAILABLE),
    ])  # fmt: skip


def _events(gpu: Gpu) -> List[Node]:
    active = gpu.number("events")
    reasons: List[Node] = [
        (label, f"clocks_event_reason_{tag}", "Active" if active & bit else "Not Active") for label, tag, bit in REASONS
    ]
    counters: List[Node] = [
        (label, f"clocks_event_reasons_counters_{tag}", f"{gpu.number(f'event_ns_{field}') // 1000} us")
        for label, tag, field in COUNTERS
    ]
    return [
        ("Clocks Event Reasons", "clocks_event_reasons", reasons),
        ("Clocks Event Reasons Counters", "clocks_event_reasons_counters", counters),
    ]


def _memory(gpu: Gpu) -> List[Node]:
    total, used, kept = (gpu.number(key) for key in ("memory_mib", "used_mib", "reserved_mib"))
    return [
        ("FB Memory Usage", "fb_memory_usage", _amounts(total, used, kept)),
        ("BAR1 Memory Usage", "bar1_memory_usage", _amounts(gpu.number("bar1_mib"), 1)),
        ("Conf Compute Protected Memory Usage", "cc_protected_memory_usage", _amounts(0, 0)),
    ]


def _utilization(gpu: Gpu) -> Node:
    value = NOT_AVAILABLE if gpu.mig else f"{gpu.number('utilization')} %"
    rest = NOT_AVAILABLE if gpu.mig else "0 %"
    names = (("Memory", "memory"), ("Encoder", "encoder"), ("Decoder", "decoder"), ("JPEG", "jpeg"), ("OFA", "ofa"))
    nodes: List[Node] = [(label, f"{tag}_util", rest) for label, tag in names]
    return ("Utilization", "utilization", [("GPU", "gpu_util", value), *nodes])


def _counts(gpu: Gpu, span: str) -> List[Node]:
    def count(place: str, kind: str) -> str:
        return str(gpu.number(f"ecc_{span}_{place}_{kind}"))

    return [
        ("SRAM Correctable", "sram_correctable", count("sram", "correctable")),
        ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", count("sram", "uncorrectable")),
        ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "0"),
        ("DRAM Correctable", "dram_correctable", count("dram", "correctable")),
        ("DRAM Uncorrectable", "dram_uncorrectable", count("dram", "uncorrectable")),
    ]


def _ecc(gpu: Gpu) -> List[Node]:
    exceeded = "Yes" if gpu.number("sram_threshold_exceeded") else "No"
    sources = (("L2", "l2"), ("SM", "sm"), ("Microcontroller", "microcontroller"), ("PCIE", "pcie"), ("Other", "other"))
    mode, pending = (switched(gpu.number(key) == 1) for key in ("ecc_mode", "ecc_pending"))
    threshold: Node = ("SRAM Threshold Exceeded", "sram_threshold_exceeded", exceeded)
    return [
        ("ECC Mode", "ecc_mode", [("Current", "current_ecc", mode), ("Pending", "pending_ecc", pending)]),
        ("ECC Errors", "ecc_errors", [
            ("Volatile", "volatile", _counts(gpu, "volatile")),
            ("Aggregate", "aggregate", [*_counts(gpu, "aggregate"), threshold]),
            ("Aggregate Uncorrectable SRAM Sources", "aggregate_uncorrectable_sram_sources",
             [(f"SRAM {label}", f"sram_{tag}", "0") for label, tag in sources]),
        ]),
    ]  # fmt: skip


def _retired() -> Node:
    causes = (("Single Bit ECC", "multiple_single_bit_retirement"), ("Double Bit ECC", "double_bit_retirement"))
    hidden: List[Node] = [
        ("", tag, [("", "retired_count", NOT_AVAILABLE), ("", "retired_pagelist", NOT_AVAILABLE)]) for _, tag in causes
    ]
    shown: List[Node] = [(label, "", NOT_AVAILABLE) for label, _ in causes]
    last: Node = ("Pending Page Blacklist", "pending_blacklist", NOT_AVAILABLE)
    return ("Retired Pages", "retired_pages", [*shown, *hidden, last, ("", "pending_retirement", NOT_AVAILABLE)])


def _remapped(gpu: Gpu) -> Node:
    if gpu.instances():
        return ("Remapped Rows", "remapped_rows", NOT_AVAILABLE)
    yes = ("No", "Yes")
    high = gpu.number("remap_banks_high")
    banks = (("Max", gpu.number("remap_banks") - high), ("High", high), ("Partial", 0), ("Low", 0), ("None", 0))
    histogram: List[Node] = [
        (label, f"row_remapper_histogram_{label.lower()}", f"{count} bank(s)") for label, count in banks
    ]
    return ("Remapped Rows", "remapped_rows", [
        ("Correctable Error", "remapped_row_corr", gpu.text("remap_correctable")),
        ("Uncorrectable Error", "remapped_row_unc", gpu.text("remap_uncorrectable")),
        ("Pending", "remapped_row_pending", yes[gpu.number("remap_pending")]),
        ("Remapping Failure Occurred", "remapped_row_failure", yes[gpu.number("remap_failure")]),
        ("Bank Remap Availability Histogram", "row_remapper_histogram", histogram),
    ])  # fmt: skip


def _temperature(gpu: Gpu) -> Node:
    rows = (
        ("GPU Current Temp", "gpu_temp", "temperature"), ("GPU T.Limit Temp", "gpu_temp_tlimit", ""),
        ("GPU Shutdown Temp", "gpu_temp_max_threshold", "temperature_shutdown"),
        ("GPU Slowdown Temp", "gpu_temp_slow_threshold", "temperature_slowdown"),
        ("GPU Max Operating Temp", "gpu_temp_max_gpu_threshold", "temperature_gpu_max"),
        ("GPU Target Temperature", "gpu_target_temperature", ""),
        ("Memory Current Temp", "memory_temp", "memory_temperature"),
        ("Memory Max Operating Temp", "gpu_temp_max_mem_threshold", "temperature_memory_max"),
    )  # fmt: skip
    nodes: List[Node] = [(label, tag, f"{gpu.text(key)} C" if key else NOT_AVAILABLE) for label, tag, key in rows]
    return ("Temperature", "temperature", nodes)


def _power(gpu: Gpu) -> List[Node]:
    rows = (
        ("Average Power Draw", "average_power_draw", ""), ("Instantaneous Power Draw", "instant_power_draw", "power_mw"),
        ("Current Power Limit", "current_power_limit", "power_limit_mw"),
        ("Requested Power Limit", "requested_power_limit", "power_limit_mw"),
        ("Default Power Limit", "default_power_limit", "power_default_mw"),
        ("Min Power Limit", "min_power_limit", "power_min_mw"), ("Max Power Limit", "max_power_limit", "power_max_mw"),
    )  # fmt: skip
    own: List[Node] = [
        (label, tag, f"{watts(gpu.number(key))} W" if key else NOT_AVAILABLE) for label, tag, key in rows
    ]
    module: List[Node] = [(label, tag, NOT_AVAILABLE) for label, tag, _ in rows]
    state_of: Node = ("", "power_state", f"P{gpu.number('performance_state')}")
    return [
        ("GPU Power Readings", "gpu_power_readings", [state_of, *own]),
        ("GPU Memory Power Readings", "gpu_memory_power_readings", module[:2]),
        ("Module Power Readings", "module_power_readings", [state_of, *module]),
        ("Power Smoothing", "power_smoothing", NOT_AVAILABLE),
    ]


def _clocks(gpu: Gpu) -> List[Node]:
    names = (("Graphics", "graphics"), ("SM", "sm"), ("Memory", "memory"), ("Video", "video"))

    def group(prefix: str, kept: Tuple[str, ...]) -> List[Node]:
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


def _fabric() -> Node:
    rows = (("State", "state"), ("Status", "status"), ("CliqueId", "cliqueId"), ("ClusterUUID", "clusterUuid"))
    return ("Fabric", "fabric", [(label, tag, NOT_AVAILABLE) for label, tag in rows])


def _processes(gpu: Gpu) -> Node:
    rows: List[Node] = []
    for pid, name, mib in gpu.clients():
        rows.append(("", "process_info", [
            ("", "gpu_instance_id", NOT_AVAILABLE), ("", "compute_instance_id", NOT_AVAILABLE), ("", "pid", pid),
            ("", "type", "C"), ("", "process_name", name), ("", "used_memory", f"{mib} MiB"),
        ]))  # fmt: skip
        rows.append(("GPU instance ID", "", NOT_AVAILABLE))
        rows.append(("Compute instance ID", "", NOT_AVAILABLE))
        rows.append(("Process ID", "", pid))
        rows += [("    Type", "", "C"), ("    Name", "", name), ("    Used GPU Memory", "", f"{mib} MiB")]
    return ("Processes", "processes", rows or "None")
