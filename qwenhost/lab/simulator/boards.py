"""The simulated boards and machines: what the state file of a fresh host holds."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import yaml

from qwenhost.records.errors import QwenhostError

DRIVER = "580.95.05"
"""R580, the long-term branch; with CUDA 13.0 Update 2."""

CUDA = "13000"

BUS_IDS = ("07", "0b", "48", "4c", "88", "8b", "c8", "cb")
"""Buses of the eight GPUs of an HGX A100 host (nvidia-smi -q, driver 525.60.13, public capture)."""

NVSWITCH_BUSES = ("a9", "aa", "ab", "ac", "ad", "ae")

NODES = 2
"""NUMA nodes of a simulated host. Each has half of the CPUs that are really there, so that pinning works."""

PROFILE_ORDER: Mapping[int, tuple[int, ...]] = {
    19: (6, 4, 5, 0, 1, 2, 3),
    20: (6, 4, 5, 0, 1, 2, 3),
    15: (6, 4, 0, 2),
    14: (4, 0, 2),
    9: (4, 0),
    5: (0,),
    0: (0,),
}
"""Order in which the driver tries the places, from the instance ids that the MIG User Guide shows for
`-cgi 19,19,14,9` (13, 11, 3, then refused: both halves are begun) and `-cgi 9,19,14,19` (2, 7, 4, ...)."""

ENGINES: Mapping[int, tuple[int, int, int, int]] = {
    19: (1, 1, 0, 0), 20: (1, 1, 1, 1), 15: (1, 1, 0, 0), 14: (2, 1, 0, 0),
    9: (3, 2, 0, 0), 5: (4, 2, 0, 0), 0: (7, 5, 1, 1),
}  # fmt: skip
"""Copy engines, decoders, JPEG and OFA units per profile id (nvidia-smi mig -lgip, public captures)."""

WITHOUT_DECODER = ("1g.5gb",)
"""The eighth of a 40 GB board has no decoder, that of an 80 GB board has one."""


@dataclass(frozen=True)
class Board:
    """One product. Figures of the SXM4 boards are from public `nvidia-smi -q` captures; thresholds, minimum
    limits and BAR1 of the PCIe boards are stand-ins by analogy, for no public capture shows them."""

    name: str
    device_id: str
    subsystem_id: str
    memory_mib: int
    reserved_mib: int
    bar1_mib: int
    memory_mhz: int
    application_mhz: int
    power_watts: int
    vbios: str
    part: str
    inforom_image: str
    gpu_part: str
    mig: str
    form: str


BOARDS: Mapping[str, Board] = {
    "a100-sxm4-80gb": Board(
        "NVIDIA A100-SXM4-80GB", "20b2", "1463", 81920, 834, 131072, 1593, 1155, 400,
        "92.00.45.00.05", "692-2G506-0210-002", "G506.0210.00.03", "20B2-895-A1", "a100-80gb", "sxm4",
    ),
    "a100-sxm4-40gb": Board(
        "NVIDIA A100-SXM4-40GB", "20b0", "134f", 40960, 518, 65536, 1215, 1095, 400,
        "92.00.45.00.03", "692-2G506-0200-003", "G506.0200.00.04", "20B0-884-A1", "a100-40gb", "sxm4",
    ),
    "a100-80gb-pcie": Board(
        "NVIDIA A100 80GB PCIe", "20b5", "1533", 81920, 834, 131072, 1512, 1065, 300,
        "92.00.A0.00.05", "900-21001-0020-100", "1001.0230.00.03", "20B5-895-A1", "a100-80gb", "pcie",
    ),
    "a100-pcie-40gb": Board(
        "NVIDIA A100-PCIE-40GB", "20f1", "145f", 40960, 518, 65536, 1215, 765, 250,
        "92.00.25.00.08", "900-21001-0000-000", "1001.0200.00.03", "20F1-884-A1", "a100-40gb", "pcie",
    ),
}  # fmt: skip


def fresh_state(sku: str, gpus: int, seed: str, cpulists: Sequence[str]) -> dict[str, str]:
    """Return all keys of a healthy host that was just switched on.

    `seed` sets serials and UUIDs apart; `cpulists` is one kernel CPU list per NUMA node.

    Raises QwenhostError for a sku or GPU count that is not simulated.
    """
    if sku not in BOARDS:
        raise QwenhostError(f"no simulated board {sku!r}", hint=f"One of: {', '.join(BOARDS)}.")
    if not 1 <= gpus <= len(BUS_IDS):
        raise QwenhostError(f"cannot simulate {gpus} GPUs", hint=f"1 to {len(BUS_IDS)} GPUs per host.")
    board = BOARDS[sku]
    values = _machine(board, gpus, cpulists) | _board(board) | _profiles(board.mig)
    for slot in range(gpus):
        values |= {f"gpu{slot}.{key}": value for key, value in _gpu(board, slot, gpus, seed).items()}
    return values


def nvswitches(board: Board, gpus: int) -> int:
    """Return the number of NVSwitches: six on the 8-GPU baseboard, none elsewhere."""
    return len(NVSWITCH_BUSES) if board.form == "sxm4" and gpus == 8 else 0


def _machine(board: Board, gpus: int, cpulists: Sequence[str]) -> dict[str, str]:
    return {
        "schema": "1",
        "boot.epoch": f"{time.time():.6f}",
        "driver.loaded": "1",
        "driver.hang": "0",
        "driver.module_version": DRIVER,
        "driver.library_version": DRIVER,
        "driver.cuda": CUDA,
        "fabricmanager.version": DRIVER,
        "fabricmanager.refuse": "0",
        "gpu.count": str(gpus),
        "nvswitch.count": str(nvswitches(board, gpus)),
        "numa.nodes": str(len(cpulists)),
    } | {f"numa{node}.cpulist": cpus for node, cpus in enumerate(cpulists)}


def _board(board: Board) -> dict[str, str]:
    values = {
        "name": board.name, "device_id": f"0x{board.device_id}", "subsystem_id": f"0x{board.subsystem_id}",
        "form": board.form, "brand": "14", "architecture": "7", "cores": "6912",
        "memory_bus_width_bits": "5120", "bus_type": "2", "multi_gpu_board": "0", "gsp": "1", "fans": "0",
        "memory_mib": str(board.memory_mib), "reserved_mib": str(board.reserved_mib),
        "bar1_mib": str(board.bar1_mib), "used_mib": "0",
        "vbios": board.vbios, "part": board.part, "gpu_part": board.gpu_part,
        "inforom_image": board.inforom_image, "inforom_oem": "2.0", "inforom_ecc": "6.16",
        "link_generation": "4", "link_generation_max": "4", "link_width": "16", "link_width_max": "16",
        "pcie_replays": "0", "pcie_rollovers": "0",
        "links": "12", "link_speed_mbps": "25000",
        "power_default_mw": str(board.power_watts * 1000), "power_limit_mw": str(board.power_watts * 1000),
        "power_min_mw": "100000", "power_max_mw": str(board.power_watts * 1000), "power_mw": "62450",
        "performance_state": "0", "compute_mode": "0", "events": "1",
        "temperature": "30", "memory_temperature": "36", "temperature_shutdown": "92",
        "temperature_slowdown": "89", "temperature_gpu_max": "85", "temperature_memory_max": "95",
        "ecc_mode": "1", "ecc_pending": "1", "remap_banks": "640",
        "remap_correctable": "0", "remap_uncorrectable": "0", "remap_pending": "0", "remap_failure": "0",
        "recovery_action": "0", "utilization": "0", "mig_devices_max": "7",
        "mig_mode": "0", "mig_pending": "0", "persistence": "0", "lost": "0", "present": "1",
    }  # fmt: skip
    values |= _clocks(board)
    return {f"board.{key}": value for key, value in values.items()}


def _clocks(board: Board) -> dict[str, str]:
    return {
        "clock_graphics_mhz": "210", "clock_sm_mhz": "210", "clock_video_mhz": "585",
        "clock_memory_mhz": str(board.memory_mhz), "clock_max_memory_mhz": str(board.memory_mhz),
        "clock_max_graphics_mhz": "1410", "clock_max_sm_mhz": "1410", "clock_max_video_mhz": "1290",
        "clock_app_graphics_mhz": str(board.application_mhz), "clock_app_sm_mhz": str(board.application_mhz),
        "clock_app_memory_mhz": str(board.memory_mhz),
    }  # fmt: skip


def _gpu(board: Board, slot: int, gpus: int, seed: str) -> dict[str, str]:
    digest = hashlib.sha256(f"{seed}/{slot}".encode()).hexdigest()
    uuid = f"GPU-{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
    values = {
        "bus_id": f"0000:{BUS_IDS[slot]}:00.0",
        "board_id": f"0x{int(BUS_IDS[slot], 16) << 8:x}",
        "uuid": uuid,
        "serial": f"1650{int(digest[32:40], 16) % 10**9:09d}",
        "minor": str(slot),
        "module_id": str(slot + 1),
        "numa": str(slot * NODES // max(gpus, NODES)),
        "pcie_switch": str(slot // 2),
        "clients": "",
    }
    return values | _links(board, slot, gpus)


def _links(board: Board, slot: int, gpus: int) -> dict[str, str]:
    values = {}
    for link, peer in enumerate(link_peers(board, slot, gpus)):
        values[f"nvlink{link}"] = "1" if peer else "0"
        if peer:
            values[f"nvlink{link}_to"] = peer
    return values


def link_peers(board: Board, slot: int, gpus: int) -> list[str]:
    """Return the bus id at the far end of each of the twelve links, empty where none is connected.

    8-GPU SXM4: two links to each of six switches; 4-GPU SXM4: four to each peer; PCIe: all to the neighbour.
    """
    if nvswitches(board, gpus):
        return [f"0000:{NVSWITCH_BUSES[link // 2]}:00.0" for link in range(12)]
    if board.form == "sxm4":
        others = [other for other in range(gpus) if other != slot][:3]
        peers = [f"0000:{BUS_IDS[other]}:00.0" for other in others] + [""] * (3 - len(others))
        return [peers[link // 4] for link in range(12)]
    neighbour = slot ^ 1
    return [f"0000:{BUS_IDS[neighbour]}:00.0" if neighbour < gpus else ""] * 12


def _profiles(table: str) -> dict[str, str]:
    text = resources.files("qwenhost.data").joinpath("mig", f"{table}.yaml").read_text(encoding="utf-8")
    return {f"profile.{row['id']}": _profile(row) for row in yaml.safe_load(text)["profiles"]}


def _profile(row: Mapping[str, object]) -> str:
    number = int(str(row["id"]))
    sizes = ("compute_slices", "memory_slices", "memory_mib", "multiprocessors", "max_instances")
    keys = ("name", "nvml_profile", *sizes)
    engines = list(ENGINES[number])
    if str(row["name"]) in WITHOUT_DECODER:
        engines[1] = 0
    fields = [*(str(row[key]) for key in keys), *map(str, engines)]
    return ":".join([*fields, ",".join(map(str, PROFILE_ORDER[number]))])
