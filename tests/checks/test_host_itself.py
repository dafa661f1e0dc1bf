"""The host's room, processors and clock: in each form in which they are read."""

from __future__ import annotations

import json

import pytest

from qwenhost.checks.engine import examine
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations, Serving, Setting, VllmInstance

CPU = "/sys/devices/system/cpu"
DF_H = "Filesystem      Size  Used Avail Use% Mounted on\n"
DF_K = "Filesystem     1K-blocks    Used Available Use% Mounted on\n"
DF_I = "Filesystem      Inodes   IUsed IFree IUse% Mounted on\n"
LIVE = "Filesystem Type 1B-blocks Avail Inodes IFree Mounted on\n"
OVER_TWO = Expectations(
    serving=Serving("0.32.0", "vllm", "m", "/models/qwen", (VllmInstance("a", 8000, gpus=(0, 1)),))
)


def governors(name: str, driver: str) -> str:
    files = {f"{CPU}/online": "0-3\n", f"{CPU}/present": "0-3\n"}
    if name:
        files[f"{CPU}/cpu0/cpufreq/scaling_governor"] = f"{name}\n"
        files[f"{CPU}/cpu0/cpufreq/scaling_driver"] = f"{driver}\n"
    return json.dumps(files)


def meminfo(available: int, swap: int, swap_free: int) -> str:
    return (
        f"MemTotal: 1000000 kB\nMemAvailable: {available} kB\nSwapTotal: {swap} kB\nSwapFree: {swap_free} kB\n"
        "HugePages_Total: 0\nHugepagesize: 2048 kB\n"
    )


FREE_H = "               total        used        free      shared  buff/cache   available\n"

CASES = [
    ("host.shm", "df", DF_H + "shm              64M     0   64M   0% /dev/shm\n", "warn"),
    ("host.shm", "df", DF_K + "shm                65536      0     65536   0% /dev/shm\n", "warn"),
    ("host.shm", "df", DF_H + "tmpfs           504G     0  504G   0% /dev/shm\n", "pass"),
    (
        "host.shm",
        "shm-log",
        "Error while creating shared memory segment /dev/shm/nccl-Ab3 (size 9637888)\n",
        "fail",
    ),
    (
        "host.shm",
        "shm-log",
        "RuntimeError: unable to write to file </torch_1_2>: No space left on device (28)",
        "fail",
    ),
    ("host.shm", "shm-log", "ERROR: This might be caused by insufficient shared memory (shm).", "fail"),
    ("host.disk", "df", DF_H + "/dev/nvme0n1p2  440G  440G     0 100% /\n", "warn"),
    ("host.disk", "df", DF_K + "/dev/sda2  460000000 459500000    500000 100% /var\n", "warn"),
    ("host.disk", "df", LIVE + "/dev/sda2 ext4 500000000000 200000000000 1000 0 /\n", "warn"),
    ("host.disk", "df", LIVE + "/dev/sda2 ext4 500000000000 200000000000 1000 10 /\n", "pass"),
    ("host.disk", "df", LIVE + "overlay btrfs 500000000000 200000000000 0 0 /\n", "pass"),
    ("host.disk", "df", DF_I + "/dev/sda2      1000000 1000000     0  100% /\n", "warn"),
    ("host.swap", "meminfo", meminfo(900000, 0, 0), "skip"),
    ("host.swap", "meminfo", meminfo(900000, 1000, 1000), "pass"),
    ("host.swap", "meminfo", meminfo(900000, 1000, 100), "note"),
    ("host.swap", "meminfo", meminfo(30000, 1000, 100), "warn"),
    ("host.swap", "free", FREE_H + "Mem: 125Gi 120Gi 1.1Gi 2.0Mi 4.0Gi 2.2Gi\nSwap: 8.0Gi 6.5Gi 1.5Gi\n", "warn"),
    ("host.swap", "free", FREE_H + "Mem: 2.0Ti 200Gi 1.1Ti 2.0Mi 4.0Gi 1.7Ti\nSwap: 0B 0B 0B\n", "skip"),
    ("host.memory", "meminfo", meminfo(900000, 0, 0), "pass"),
    ("host.memory", "meminfo", meminfo(10000, 0, 0), "warn"),
    ("host.governor", "cpus", governors("", ""), "skip"),
    ("host.governor", "cpus", governors("performance", "acpi-cpufreq"), "pass"),
    ("host.governor", "cpus", governors("powersave", "acpi-cpufreq"), "warn"),
    ("host.governor", "cpus", governors("powersave", "intel_pstate"), "note"),
    (
        "host.governor",
        "cpupower",
        '  driver: intel_cpufreq\n  The governor "powersave" may decide which\n',
        "warn",
    ),
    ("host.cpu", "cpus", governors("", ""), "pass"),
    ("host.cpu", "cpus", governors("", "").replace("0-3", "0-2", 1), "note"),
    ("host.kernel-args", "kernel-args", "BOOT_IMAGE=/vmlinuz root=/dev/sda2 iommu=pt intel_iommu=on\n", "pass"),
    ("host.kernel-args", "kernel-args", "BOOT_IMAGE=/vmlinuz root=/dev/sda2 iommu=off ro iommu=pt\n", "warn"),
    ("host.numa-balancing", "sysctl-text", "kernel.numa_balancing = 0\n", "pass"),
    ("host.numa-balancing", "sysctl-text", "kernel.numa_balancing = 1\n", "note"),
    ("host.clock-sync", "timedatectl", "NTP=yes\nNTPSynchronized=yes\n", "pass"),
    ("host.clock-sync", "timedatectl", "NTP=yes\nNTPSynchronized=no\n", "warn"),
    ("host.clock-sync", "timedatectl-status", "     NTP synchronized: no\n", "warn"),
    ("host.clock-sync", "timedatectl-status", "System clock synchronized: yes\n", "pass"),
    ("host.clock-sync", "chronyc-tracking", "Leap status     : Not synchronised\n", "warn"),
    ("host.clock-sync", "chronyc-tracking", "Leap status     : Normal\n", "pass"),
]

NODES = (
    "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2\nnode 0 size: {} MB\nnode 1 cpus: 3 4 5\nnode 1 size: {} MB\n"
)
NODE_CASES = [
    ("numactl", NODES.format(515800, 516000), ["pass", "pass"]),
    ("numactl", NODES.format(516000, 451000), ["pass", "warn"]),
    ("numactl", NODES.format(0, 516000), ["warn", "pass"]),
    ("lscpu", "NUMA node(s):        2\nNUMA node0 CPU(s):   0-31\nNUMA node1 CPU(s):   32-63\n", ["note"]),
    ("lscpu", "NUMA:\n  NUMA node(s):          1\n  NUMA node0 CPU(s):     0-31\n", ["note"]),
]


@pytest.mark.parametrize(("source", "text", "expected"), NODE_CASES)
def test_nodes(source: str, text: str, expected: list[str]) -> None:
    assert verdict("numa.nodes", Expectations(), Capture(source, "ok", text)) == expected


def verdict(check: str, want: Expectations, *captures: Capture) -> list[str]:
    """Return the verdicts of one check."""
    return [f.verdict.value for f in examine(Bundle("h", captures), want) if f.check == check]


@pytest.mark.parametrize(("check", "source", "text", "expected"), CASES)
def test_forms(check: str, source: str, text: str, expected: str) -> None:
    assert verdict(check, Expectations(), Capture(source, "ok", text)) == [expected]


def test_numa_balancing_that_the_profile_turns_off_is_the_roles_to_set() -> None:
    off = Expectations(sysctl=(Setting("kernel.numa_balancing", "0", "", "test"),))
    live = Bundle("h", captures=(Capture("sysctl-text", "ok", "kernel.numa_balancing = 1\n"),))
    found = next(f for f in examine(live, off) if f.check == "host.numa-balancing")
    assert (found.verdict.value, found.remedy.role) == ("fail", "host_tuning")


def test_shared_memory_for_several_gpus() -> None:
    table = Capture("df", "ok", LIVE + "tmpfs tmpfs 268435456 268435456 100 99 /dev/shm\n")
    assert verdict("host.shm", Expectations(), table) == ["pass"]
    assert verdict("host.shm", OVER_TWO, table) == ["warn"]


def test_the_model_s_own_file_system() -> None:
    table = Capture("df", "ok", LIVE + "/dev/md0 xfs 4000000000000 1000 100 99 /models\n")
    assert verdict("host.disk", OVER_TWO, table) == ["warn"]
    assert verdict("host.disk", Expectations(), table) == ["unknown"]


def test_a_container_has_its_machine_s_clock() -> None:
    inside = Capture("container", "ok", json.dumps({"/run/systemd/container": "systemd-nspawn\n"}))
    no = Capture("timedatectl", "ok", "NTPSynchronized=no\n")
    assert verdict("host.clock-sync", Expectations(), inside, no) == ["skip"]
    assert verdict("host.clock-sync", Expectations(), Capture("timedatectl", "missing")) == ["note"]
