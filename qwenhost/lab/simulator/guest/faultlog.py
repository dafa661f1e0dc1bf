"""Kernel log of the simulated host and the journal of injected faults: read at power-on and by dmesg."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from . import state

BUILD = "Tue Sep 23 09:52:16 UTC 2025"


def journal(host_root: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return what each active fault changed, by kind."""
    path = state.folder(host_root) / "faults.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def seconds_since_boot(values: state.Values) -> float:
    """Return the age of the simulated boot, as kernel stamps count it."""
    return max(0.0, time.time() - float(values["boot.epoch"]))


def append(lines: list[str], seconds: float, host_root: Path | None = None) -> list[str]:
    """Add stamped lines to the kernel log and return them as written."""
    stamped = [f"[{seconds + index * 0.000131:12.6f}] {line}" for index, line in enumerate(lines)]
    with (state.folder(host_root) / "kmsg").open("a", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in stamped)
    return stamped


def boot_lines(values: state.Values, cmdline: str) -> list[str]:
    """Return what the kernel says while it finds the GPUs and loads the driver."""
    version = values["driver.module_version"]
    lines = [
        "Linux version 6.1.0-32-amd64 (qwenhost lab simulator) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP",
        f"Command line: {cmdline}",
        "DMI: qwenhost lab simulator, not a real machine",
    ]
    slots = state.slots(values)
    for slot in slots:
        device = state.get(values, slot, "device_id")[2:]
        lines.append(f"pci {values[f'gpu{slot}.bus_id']}: [10de:{device}] type 00 class 0x030200")
    lines.append("nvidia: loading out-of-tree module taints kernel.")
    lines.append("nvidia: module verification failed: signature and/or required key missing - tainting kernel")
    lines.append("nvidia-nvlink: Nvlink Core is being initialized, major device number 241")
    lines += _switch_lines(values)
    lines.append(f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  {BUILD}")
    mode = "Loading NVIDIA UNIX Open Kernel Mode Setting Driver for x86_64"
    lines.append(f"nvidia-modeset: {mode}  {version}  Release Build  {BUILD}")
    lines.append("nvidia-uvm: Loaded the UVM driver, major device number 239.")
    lines += _drm_lines(values, slots)
    return lines


def _switch_lines(values: state.Values) -> list[str]:
    found = {text for key, text in values.items() if key.startswith("gpu0.nvlink") and key.endswith("_to")}
    buses = sorted(found)[: int(values["nvswitch.count"])]
    probe = "Vendor Id = 0x10de, Device Id = 0x1af1, Class = 0x68000"
    lines = []
    for index, bus_id in enumerate(buses):
        lines.append(f"nvidia-nvswitch: Probing device {bus_id}, {probe}")
        lines.append(f"nvidia-nvswitch{index}: using MSI")
    return lines


def _drm_lines(values: state.Values, slots: list[int]) -> list[str]:
    lines = []
    for slot in slots:
        bus_id = values[f"gpu{slot}.bus_id"]
        lines.append(f"[drm] Initialized nvidia-drm 0.0.0 for {bus_id} on minor {slot + 1}")
    return lines
