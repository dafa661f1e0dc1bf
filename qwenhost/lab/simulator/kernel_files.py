"""Stand-ins of files that the machine's one kernel owns: NUMA nodes, hugepages, vm settings, driver files.

They are plain files: they take any value, the global hugepage pool does not follow the nodes, and
transparent_hugepage/enabled reads back what was written. Only the power-on step restores kernel defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qwenhost.lab.simulator.guest import state

POOLS_KIB = (2048, 1048576)
NODE_MEMORY_KIB = 1024 * 1024 * 512

VM_DEFAULTS = {
    "compact_memory": "0", "compaction_proactiveness": "20", "dirty_background_ratio": "10",
    "dirty_ratio": "20",
    "dirty_expire_centisecs": "3000", "dirty_writeback_centisecs": "500", "drop_caches": "0",
    "hugetlb_shm_group": "0", "max_map_count": "65530", "min_free_kbytes": "67584", "mmap_min_addr": "65536",
    "nr_hugepages": "0", "nr_overcommit_hugepages": "0", "numa_stat": "1", "oom_kill_allocating_task": "0",
    "overcommit_kbytes": "0", "overcommit_memory": "0", "overcommit_ratio": "50", "panic_on_oom": "0",
    "stat_interval": "1", "swappiness": "60", "vfs_cache_pressure": "100", "watermark_boost_factor": "15000",
    "watermark_scale_factor": "10", "zone_reclaim_mode": "0",
}  # fmt: skip
"""Defaults of Linux 6.1 (Documentation/admin-guide/sysctl/vm.rst)."""


def write_kernel_files(host_root: Path, values: Mapping[str, str]) -> None:
    """Write all stand-ins below the simulator's folder, with the kernel's defaults."""
    home = state.folder(host_root)
    _fill(home / "vm", VM_DEFAULTS)
    _fill(
        home / "thp",
        {"enabled": "always [madvise] never", "defrag": "always defer defer+madvise [madvise] never"},
    )
    for size in POOLS_KIB:
        names = (
            "nr_hugepages",
            "free_hugepages",
            "resv_hugepages",
            "surplus_hugepages",
            "nr_overcommit_hugepages",
        )
        _fill(home / "hugepages" / f"hugepages-{size}kB", dict.fromkeys(names, "0"))
    _write_nodes(home / "node", values)
    write_driver_files(host_root, values)


def write_driver_files(host_root: Path, values: Mapping[str, str]) -> None:
    """Write what the loaded driver shows under /proc."""
    home = state.folder(host_root)
    _write_driver(home / "proc-driver" / "nvidia", values)
    (home / "modules").write_text(_MODULES, encoding="ascii")


def _fill(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")


def _write_nodes(folder: Path, values: Mapping[str, str]) -> None:
    nodes = int(values["numa.nodes"])
    listed = "0" if nodes == 1 else f"0-{nodes - 1}"
    _fill(folder, dict.fromkeys(("online", "possible", "has_cpu", "has_memory", "has_normal_memory"), listed))
    for node in range(nodes):
        distances = " ".join("10" if other == node else "32" for other in range(nodes))
        cpus = values[f"numa{node}.cpulist"]
        texts = {"cpulist": cpus, "cpumap": _mask(cpus), "distance": distances, "meminfo": _meminfo(node)}
        _fill(folder / f"node{node}", texts)
        for size in POOLS_KIB:
            pool = folder / f"node{node}" / "hugepages" / f"hugepages-{size}kB"
            _fill(pool, dict.fromkeys(("nr_hugepages", "free_hugepages", "surplus_hugepages"), "0"))


def _mask(cpulist: str) -> str:
    bits = 0
    for part in cpulist.split(","):
        first, _, last = part.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            bits |= 1 << cpu
    words = f"{bits:x}".zfill(8 * -(-len(f"{bits:x}") // 8))
    return ",".join(words[at : at + 8] for at in range(0, len(words), 8))


def _meminfo(node: int) -> str:
    """Return a node's memory with the rows that programs count with: a tenth is used, half of it as page cache."""
    twentieth = NODE_MEMORY_KIB // 20
    rows = {
        "MemTotal": NODE_MEMORY_KIB,
        "MemFree": NODE_MEMORY_KIB - 2 * twentieth,
        "MemUsed": 2 * twentieth,
        **{"SwapCached": 0, "Active": twentieth, "Inactive": twentieth},
        **{"Active(anon)": 0, "Inactive(anon)": twentieth, "Active(file)": twentieth, "Inactive(file)": 0},
        **{"Unevictable": 0, "Mlocked": 0, "Dirty": 0, "Writeback": 0, "FilePages": twentieth},
        **{"Mapped": 0, "AnonPages": twentieth, "Shmem": 0, "KernelStack": 0, "PageTables": 0},
        **{"Slab": 0, "SReclaimable": 0, "SUnreclaim": 0, "AnonHugePages": 0},
    }
    lines = [f"Node {node} {key + ':':<15} {value:>10} kB" for key, value in rows.items()]
    pages = [f"Node {node} {key}:     0" for key in ("HugePages_Total", "HugePages_Free", "HugePages_Surp")]
    return "\n".join(lines + pages)


def _write_driver(folder: Path, values: Mapping[str, str]) -> None:
    version = values["driver.module_version"]
    text = (
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (qwenhost lab)\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)"
    )
    _fill(folder, {"version": text, "params": _PARAMS})
    keys = dict(values)
    for slot in state.slots(keys):
        _fill(folder / "gpus" / values[f"gpu{slot}.bus_id"], {"information": _information(keys, slot)})


def _information(values: dict[str, str], slot: int) -> str:
    rows = (
        ("Model:", f"\t\t {state.get(values, slot, 'name')}"),
        ("IRQ:", f"   \t\t {160 + slot}"),
        ("GPU UUID:", f" \t {state.get(values, slot, 'uuid')}"),
        ("Video BIOS:", f" \t {state.get(values, slot, 'vbios')}"),
        ("Bus Type:", " \t PCIe"),
        ("DMA Size:", " \t 47 bits"),
        ("DMA Mask:", " \t 0x7fffffffffff"),
        ("Bus Location:", f" \t {state.get(values, slot, 'bus_id')}"),
        ("Device Minor:", f" \t {state.get(values, slot, 'minor')}"),
        ("GPU Firmware:", f" \t {values['driver.module_version']}"),
        ("GPU Excluded:", "\t No"),
    )
    return "\n".join(f"{key}{text}" for key, text in rows)


_PARAMS = "\n".join(
    (
        "ResmanDebugLevel: 4294967295", "RmLogonRC: 1", "ModifyDeviceFiles: 1", "DeviceFileUID: 0",
        "DeviceFileGID: 0", "DeviceFileMode: 438", "InitializeSystemMemoryAllocations: 1",
        "UsePageAttributeTable: 4294967295", "EnableMSI: 1", "EnablePCIeGen3: 0", "MemoryPoolSize: 0",
        "KMallocHeapMaxSize: 0", "VMallocHeapMaxSize: 0", "IgnoreMMIOCheck: 0", "EnableStreamMemOPs: 0",
        "EnableUserNUMAManagement: 1", "NvLinkDisable: 0", "RmProfilingAdminOnly: 1",
        "PreserveVideoMemoryAllocations: 1", "EnableS0ixPowerManagement: 0", "DynamicPowerManagement: 3",
        "RegisterPCIDriver: 1", "EnablePCIERelaxedOrderingMode: 0", "EnableResizableBar: 0",
        "EnableGpuFirmware: 18", "EnableGpuFirmwareLogs: 2", "EnableDbgBreakpoint: 0",
        "OpenRmEnableUnsupportedGpus: 1", 'RegistryDwords: ""', 'RegistryDwordsPerDevice: ""', 'RmMsg: ""',
        'GpuBlacklist: ""', 'TemporaryFilePath: ""', 'ExcludedGpus: ""',
    )
)  # fmt: skip

_MODULES = """nvidia_peermem 16384 0 - Live 0x0000000000000000
nvidia_uvm 2097152 0 - Live 0x0000000000000000
nvidia_drm 135168 0 - Live 0x0000000000000000
nvidia_modeset 1650688 1 nvidia_drm, Live 0x0000000000000000
nvidia 14393344 4 nvidia_peermem,nvidia_uvm,nvidia_modeset, Live 0x0000000000000000
"""
