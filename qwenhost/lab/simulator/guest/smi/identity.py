"""Sections of `nvidia-smi -q` that do not change while a GPU works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .machine import NOT_AVAILABLE, RECOVERY, Gpu, MigDevice, switched
from .nodes import amounts, pair

if TYPE_CHECKING:
    from .nodes import Node


def identity(gpu: Gpu) -> list[Node]:
    """Return what the board is."""
    gone = "Requested functionality has been deprecated"
    return [
        ("Product Name", "product_name", gpu.text("name")),
        ("Product Brand", "product_brand", "NVIDIA"),
        ("Product Architecture", "product_architecture", "Ampere"),
        ("Display Mode", "display_mode", gone),
        ("Display Attached", "display_attached", "No"),
        ("Display Active", "display_active", "Disabled"),
        ("Persistence Mode", "persistence_mode", switched(gpu.number("persistence") == 1)),
        ("Addressing Mode", "addressing_mode", "HMM"),
    ]


def mig(gpu: Gpu) -> list[Node]:
    """Return MIG mode and devices."""
    pending = switched(gpu.number("mig_pending") == 1)
    modes = pair("MIG Mode", "mig_mode", "mig", switched(gpu.mig), pending)
    devices = [_mig_device(gpu, device) for device in gpu.mig_devices()]
    if not devices:
        return [modes, ("MIG Device" if gpu.mig else "", "mig_devices", "None")]
    inner: list[Node] = [("", "mig_device", nodes) for nodes in devices]
    shown: list[Node] = [("MIG Device", "", nodes) for nodes in devices]
    return [modes, *shown, ("", "mig_devices", inner)]


def _mig_device(gpu: Gpu, device: MigDevice) -> list[Node]:
    profile = device.profile
    bar1 = gpu.number("bar1_mib") * profile.memory_slices // 8 - 1
    shared: list[Node] = [
        ("Multiprocessor count", "multiprocessor_count", str(14 * device.slices)),
        ("Copy Engine count", "copy_engine_count", str(profile.copy_engines)),
        ("Encoder count", "encoder_count", "0"),
        ("Decoder count", "decoder_count", str(profile.decoders)),
        ("OFA count", "ofa_count", str(profile.ofa)),
        ("JPG count", "jpg_count", str(profile.jpeg)),
    ]
    return [
        ("Index", "index", str(device.number)),
        ("GPU Instance ID", "gpu_instance_id", str(device.gpu_instance)),
        ("Compute Instance ID", "compute_instance_id", str(device.compute_instance)),
        ("Device Attributes", "device_attributes", [("Shared", "shared", shared)]),
        (
            "ECC Errors",
            "ecc_error_count",
            [
                ("Volatile", "volatile_count", [("SRAM Uncorrectable", "sram_uncorrectable", "0")]),
            ],
        ),
        ("FB Memory Usage", "fb_memory_usage", amounts(profile.memory_mib, 12, 0)),
        ("BAR1 Memory Usage", "bar1_memory_usage", amounts(bar1, 0)),
    ]


def board(gpu: Gpu) -> list[Node]:
    """Return numbers and versions of the board."""
    none = NOT_AVAILABLE
    platform = ("Chassis Serial Number", "Slot Number", "Tray Index", "Host ID", "Peer Type")
    nodes: list[Node] = [(label, label.lower().replace(" ", "_"), none) for label in platform]
    nodes += [("Module Id", "module_id", gpu.text("module_id")), ("GPU Fabric GUID", "gpu_fabric_guid", none)]
    return [
        ("Accounting Mode", "accounting_mode", "Disabled"),
        ("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000"),
        pair("Driver Model", "driver_model", "dm", none),
        ("Serial Number", "serial", gpu.text("serial")),
        ("GPU UUID", "uuid", gpu.text("uuid")),
        ("Minor Number", "minor_number", gpu.text("minor")),
        ("VBIOS Version", "vbios_version", gpu.text("vbios")),
        ("MultiGPU Board", "multigpu_board", "No"),
        ("Board ID", "board_id", gpu.text("board_id")),
        ("Board Part Number", "board_part_number", gpu.text("part")),
        ("GPU Part Number", "gpu_part_number", gpu.text("gpu_part")),
        ("FRU Part Number", "gpu_fru_part_number", none),
        ("Platform Info", "platformInfo", nodes),
        (
            "Inforom Version",
            "inforom_version",
            [
                ("Image Version", "img_version", gpu.text("inforom_image")),
                ("OEM Object", "oem_object", gpu.text("inforom_oem")),
                ("ECC Object", "ecc_object", gpu.text("inforom_ecc")),
                ("Power Management Object", "pwr_object", none),
            ],
        ),
        pair("GPU Operation Mode", "gpu_operation_mode", "gom", none),
        ("GPU C2C Mode", "c2c_mode", none),
        (
            "GPU Virtualization Mode",
            "gpu_virtualization_mode",
            [
                ("Virtualization Mode", "virtualization_mode", "None"),
                ("Host VGPU Mode", "host_vgpu_mode", none),
                ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", none),
            ],
        ),
        ("GPU Recovery Action", "gpu_recovery_action", RECOVERY[gpu.number("recovery_action")]),
        ("GSP Firmware Version", "gsp_firmware_version", gpu.values["driver.module_version"]),
        ("IBMNPU", "ibmnpu", [("Relaxed Ordering Mode", "relaxed_ordering_mode", none)]),
    ]


def pci(gpu: Gpu) -> Node:
    """Return the PCI section."""
    top, now = gpu.text("link_generation_max"), gpu.text("link_generation")
    generation: list[Node] = [
        ("Max", "max_link_gen", top),
        ("Current", "current_link_gen", now),
        ("Device Current", "device_current_link_gen", now),
        ("Device Max", "max_device_link_gen", top),
        ("Host Max", "max_host_link_gen", top),
    ]
    width: list[Node] = [
        ("Max", "max_link_width", f"{gpu.text('link_width_max')}x"),
        ("Current", "current_link_width", f"{gpu.text('link_width')}x"),
    ]
    return (
        "PCI",
        "pci",
        [
            ("Bus", "pci_bus", f"0x{gpu.bus_id[9:11]}"),
            ("Device", "pci_device", "0x00"),
            ("Domain", "pci_domain", "0x0000"),
            ("Base Classcode", "pci_base_class", "0x3"),
            ("Sub Classcode", "pci_sub_class", "0x2"),
            ("Device Id", "pci_device_id", f"0x{gpu.number('device_id'):04X}10DE"),
            ("Bus Id", "pci_bus_id", gpu.bus_id),
            ("Sub System Id", "pci_sub_system_id", f"0x{gpu.number('subsystem_id'):04X}10DE"),
            (
                "GPU Link Info",
                "pci_gpu_link_info",
                [
                    ("PCIe Generation", "pcie_gen", generation),
                    ("Link Width", "link_widths", width),
                ],
            ),
            (
                "Bridge Chip",
                "pci_bridge_chip",
                [
                    ("Type", "bridge_chip_type", NOT_AVAILABLE),
                    ("Firmware", "bridge_chip_fw", NOT_AVAILABLE),
                ],
            ),
            ("Replays Since Reset", "replay_counter", gpu.text("pcie_replays")),
            ("Replay Number Rollovers", "replay_rollover_counter", gpu.text("pcie_rollovers")),
            ("Tx Throughput", "tx_util", NOT_AVAILABLE if gpu.mig else "350 KB/s"),
            ("Rx Throughput", "rx_util", NOT_AVAILABLE if gpu.mig else "300 KB/s"),
            ("Atomic Caps Outbound", "atomic_caps_outbound", NOT_AVAILABLE),
            ("Atomic Caps Inbound", "atomic_caps_inbound", NOT_AVAILABLE),
        ],
    )
