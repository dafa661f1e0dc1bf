"""Faults of a simulated host: injected and cleared from outside, while it runs.

Each fault changes what the hardware, the driver and the kernel log would show, and nothing else. It outlasts
a reboot of the host; `clear` puts back exactly what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qwenhost.lab.simulator.edits import Edit, save, undo
from qwenhost.lab.simulator.guest import faultlog, state
from qwenhost.lab.simulator.pci_config import SIZE_BYTES, config_space
from qwenhost.lab.simulator.pci_tree import device_folder, gpu_function
from qwenhost.records.errors import QwenhostError

KINDS: dict[str, str] = {
    "link-x8": "GPU 3 trained its PCIe link at x8; GPU and slot can do x16",
    "nvlink-down": "NVLink 5 of GPU 2 is inactive",
    "gpu-missing": "GPU 6 is neither on the bus nor in the driver",
    "gpu-lost": "GPU 6 fell off the bus while in use: Xid 79, revision ff, NVML says it is lost",
    "fabricmanager-version": "the fabric manager is older than the loaded driver and ends",
    "fabricmanager-stopped": "the fabric manager is not running",
    "vbios-odd": "GPU 4 has another VBIOS than the rest",
    "driver-mismatch": "the driver's library is newer than the loaded module",
    "xid-79": "the kernel log holds an Xid 79 of GPU 5, which answers again",
    "xid-119": "the GSP of GPU 2 timed out: Xid 119, reset wanted",
    "row-remap-pending": "GPU 1 has a row remap that waits for a reset: Xid 63",
    "hbm-hot": "memory of GPU 5 is above its maximum, software thermal slowdown",
    "power-brake": "GPU 7 is slowed down by the external power brake",
    "driver-hang": "the driver answers no call",
    "gpu-held": "a process holds GPU 0, so that a change of MIG mode stays pending",
}


def inject(root: Path, kind: str) -> None:
    """Inject one fault; one that is active stays as it is.

    Raises QwenhostError for an unknown kind and where the host cannot have it.
    """
    if kind not in KINDS:
        raise QwenhostError(f"no fault {kind!r}", hint=f"One of: {', '.join(KINDS)}.")
    with state.change(root) as values:
        journal = faultlog.journal(root)
        if kind in journal:
            return
        edit = Edit(root, values)
        _ACTS[kind](edit)
        save(root, {**journal, kind: edit.entry})


def clear(root: Path) -> None:
    """Undo all active faults, the last one first."""
    with state.change(root) as values:
        for entry in reversed(list(faultlog.journal(root).values())):
            undo(root, values, entry)
        save(root, {})


def active(root: Path) -> list[str]:
    """Return the kinds of the active faults, oldest first."""
    return list(faultlog.journal(root))


def _slot(edit: Edit, wanted: int) -> int:
    """Return the wanted board slot, or the last one of a smaller host."""
    return min(wanted, int(edit.values["gpu.count"]) - 1)


def _bus(edit: Edit, slot: int) -> str:
    return edit.values[f"gpu{slot}.bus_id"]


def _xid(edit: Edit, slot: int, text: str) -> str:
    return f"NVRM: Xid (PCI:{_bus(edit, slot)[:-2]}): {text}"


def _on_bus(edit: Edit, slot: int) -> Path:
    try:
        return device_folder(edit.host_root, _bus(edit, slot))
    except FileNotFoundError as error:
        raise QwenhostError(f"GPU {slot} of this host is missing", hint="Clear its faults first.") from error


def _needs_nvswitch(edit: Edit) -> None:
    if not int(edit.values["nvswitch.count"]):
        raise QwenhostError("this host has no NVSwitches, hence no fabric manager", hint="Use 8 SXM4 GPUs.")


def _link_x8(edit: Edit) -> None:
    slot = _slot(edit, 3)
    folder = _on_bus(edit, slot)
    edit.put_gpu(slot, link_width="8")
    edit.write(folder / "current_link_width", b"8\n")
    edit.write(folder.parent / "current_link_width", b"8\n")
    edit.write(folder / "config", config_space(gpu_function(edit.values, slot)))
    port = bytearray((folder.parent / "config").read_bytes())
    # Express capability at 0x78, link status at 0x12 of it: width in bits 4 to 9.
    port[0x78 + 0x12] = port[0x78 + 0x12] & 0x0F | 0x80
    port[0x78 + 0x13] &= 0xFC
    edit.write(folder.parent / "config", bytes(port))


def _nvlink_down(edit: Edit) -> None:
    slot = _slot(edit, 2)
    if edit.values.get(f"gpu{slot}.nvlink5") != "1":
        raise QwenhostError(f"GPU {slot} has no active NVLink 5", hint="Use a board with NVLink.")
    edit.put_gpu(slot, nvlink5="0")


def _gpu_missing(edit: Edit) -> None:
    slot = _slot(edit, 6)
    _on_bus(edit, slot)
    edit.put_gpu(slot, present="0")
    edit.unlink(edit.home / "pci" / _bus(edit, slot))
    edit.set_aside(edit.home / "proc-driver/nvidia/gpus" / _bus(edit, slot))


def _gpu_lost(edit: Edit) -> None:
    slot = _slot(edit, 6)
    folder = _on_bus(edit, slot)
    edit.put_gpu(slot, lost="1", recovery_action="2")
    edit.write(folder / "config", b"\xff" * SIZE_BYTES)
    edit.write(folder / "revision", b"0xff\n")
    edit.write(folder / "current_link_speed", b"Unknown\n")
    edit.write(folder / "current_link_width", b"63\n")
    edit.log(
        _xid(edit, slot, "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        f"NVRM: GPU {_bus(edit, slot)}: GPU has fallen off the bus.",
        f"NVRM: GPU {_bus(edit, slot)}: GPU serial number is {edit.values[f'gpu{slot}.serial']}.",
        _xid(edit, slot, "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
    )


def _fabric_version(edit: Edit) -> None:
    _needs_nvswitch(edit)
    edit.put("fabricmanager.version", "580.65.06")


def _fabric_stopped(edit: Edit) -> None:
    _needs_nvswitch(edit)
    edit.put("fabricmanager.refuse", "1")


def _vbios_odd(edit: Edit) -> None:
    slot = _slot(edit, 4)
    usual = edit.values["board.vbios"]
    odd = f"92.00.19{usual[8:]}"
    edit.put_gpu(slot, vbios=odd)
    path = edit.home / "proc-driver/nvidia/gpus" / _bus(edit, slot) / "information"
    edit.write(path, path.read_bytes().replace(usual.encode(), odd.encode()))


def _driver_mismatch(edit: Edit) -> None:
    edit.put("driver.library_version", "580.105.08")
    module, library = edit.values["driver.module_version"], "580.105.08"
    edit.log(
        f"NVRM: API mismatch: the client has the version {library}, but",
        f"NVRM: this kernel module has the version {module}.  Please",
        "NVRM: make sure that this kernel module and all NVIDIA driver",
        "NVRM: components have the same version.",
    )


def _xid_79(edit: Edit) -> None:
    edit.log(_xid(edit, _slot(edit, 5), "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."))


def _xid_119(edit: Edit) -> None:
    slot = _slot(edit, 2)
    edit.put_gpu(slot, recovery_action="1")
    what = f"Timeout after 6s of waiting for RPC response from GPU{slot} GSP!"
    edit.log(
        _xid(
            edit,
            slot,
            f"119, pid=1523, name=python3, {what} Expected function 76 (GSP_RM_CONTROL) (0x20802002 0x8).",
        ),
        _xid(edit, slot, "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    )


def _row_remap(edit: Edit) -> None:
    slot = _slot(edit, 1)
    edit.put_gpu(slot, remap_uncorrectable="1", remap_pending="1", remap_banks_high="1", recovery_action="4")
    edit.put_gpu(slot, ecc_volatile_dram_uncorrectable="1", ecc_aggregate_dram_uncorrectable="1")
    row = "Row Remapper: New row (0x000000000b5a7c00) marked for remapping, reset gpu to activate."
    edit.log(_xid(edit, slot, f"63, pid='<unknown>', name=<unknown>, {row}"))


def _hbm_hot(edit: Edit) -> None:
    slot = _slot(edit, 5)
    hot = str(int(edit.values["board.temperature_memory_max"]) + 1)
    edit.put_gpu(slot, memory_temperature=hot, temperature="71", events="0x20", event_ns_269="98304000000")
    edit.put_gpu(slot, clock_graphics_mhz="810", clock_sm_mhz="810", power_mw="296310", utilization="100")


def _power_brake(edit: Edit) -> None:
    slot = _slot(edit, 7)
    edit.put_gpu(slot, events="0x88", event_ns_271="41250000000", clock_graphics_mhz="345", clock_sm_mhz="345")


def _driver_hang(edit: Edit) -> None:
    edit.put("driver.hang", "1")
    edit.log(
        "INFO: task nvidia-smi:4242 blocked for more than 120 seconds.",
        "      Tainted: P           OE      6.1.0-32-amd64 #1 Debian 6.1.129-1",
        "task:nvidia-smi      state:D stack:0     pid:4242  ppid:1      flags:0x00004002",
        "Call Trace:",
        " <TASK>",
        " __schedule+0x34d/0x9e0",
        " schedule+0x5a/0xd0",
        " rwsem_down_read_slowpath+0x26c/0x4c0",
        " os_acquire_rwlock_read+0x31/0x50 [nvidia]",
        " nvidia_open+0x1d2/0x4a0 [nvidia]",
        " </TASK>",
    )


def _gpu_held(edit: Edit) -> None:
    edit.put_gpu(0, clients="4242/python3/1024", used_mib="1024")


_ACTS: dict[str, Callable[[Edit], None]] = {
    "link-x8": _link_x8,
    "nvlink-down": _nvlink_down,
    "gpu-missing": _gpu_missing,
    "gpu-lost": _gpu_lost,
    "fabricmanager-version": _fabric_version,
    "fabricmanager-stopped": _fabric_stopped,
    "vbios-odd": _vbios_odd,
    "driver-mismatch": _driver_mismatch,
    "xid-79": _xid_79,
    "xid-119": _xid_119,
    "row-remap-pending": _row_remap,
    "hbm-hot": _hbm_hot,
    "power-brake": _power_brake,
    "driver-hang": _driver_hang,
    "gpu-held": _gpu_held,
}
