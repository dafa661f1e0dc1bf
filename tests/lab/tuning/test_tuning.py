"""Every host setting on a booted host: set, kept over a reboot, drifted one by one, repaired, taken back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from qwenhost.lab import lifecycle
from qwenhost.lab.layout import Lab
from qwenhost.lab.lifecycle import Simulated
from qwenhost.lab.simulator import install
from tests.lab.commands import QWENHOST, Command, alarms, bare_inventory, changes, empty, on, run

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root")]

LAB = Lab("tuning")
ACS = "pci=disable_acs_redir=pci:0:0"
DECLARED = {
    "qwenhost_profile": "serving",
    "qwenhost_sysctl": {"kernel.panic": 10},
    "qwenhost_hugepages": {"2M": 512, "1G": 4},
    "qwenhost_kernel_args": [ACS],
    "qwenhost_shm": "256M",
    "qwenhost_swap": False,
    "qwenhost_nvidia_options": {"NVreg_EnableStreamMemOPs": 1},
}
STATE = """
cd / && for file in $(find etc usr/local var/lib/qwenhost/*.json boot/grub -name '*qwenhost*' -o -name grub.cfg \
  -o -path '*qwenhost*' -not -type d 2>/dev/null | grep -v /runs | sort -u); do
  [ -d "$file" ] || stat -c '%A %U %N' "$file"; [ -d "$file" ] || [ -L "$file" ] || sha256sum < "$file"; done
sysctl kernel.panic vm.swappiness net.core.rmem_max net.ipv4.tcp_mtu_probing kernel.numa_balancing
grep -oE '\\[[a-z]+\\]|^[a-z]+$' /sys/kernel/mm/transparent_hugepage/enabled | tr -d '[]'
cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor
grep . /sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages
df -B1 --output=size /dev/shm
systemctl is-active qwenhost-tuning || true
"""
"""Prints all that the role changes: files with modes and checksums, GRUB's menu, live values, the unit."""


@dataclass(frozen=True)
class Host:
    """A host and its state before the first run."""

    inventory: str
    fresh: str

    def on(self, command: str) -> str:
        return on(LAB, "lab1", command)

    def state(self) -> str:
        return self.on(STATE)

    def provision(self, *options: str) -> Command:
        return run(QWENHOST, "provision", self.inventory, "--yes", "--json", *options)

    def rollback(self, *options: str) -> Command:
        return run(QWENHOST, "rollback", self.inventory, "--yes", *options)

    def alarms(self) -> dict[str, str]:
        done = run(QWENHOST, "doctor", "lab1", "-i", self.inventory, "--json", "--no-state")
        return alarms(done.report["hosts"][0]["findings"])


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with empty(LAB):
        lifecycle.up(LAB, 1, Simulated("a100-sxm4-80gb", 8), install)
        inventory = bare_inventory(LAB, tmp_path_factory.mktemp("inventory"), **DECLARED)
        yield Host(str(inventory), on(LAB, "lab1", STATE))


def test_a_fresh_host_gets_every_setting(host: Host) -> None:
    first = host.provision()
    assert first.code == 0, first.messages + first.output
    assert set(changes(first)["lab1"]) == {"host_tuning"}
    assert host.alarms() == {"host.kernel-args": ACS, "host.nvidia-options": "NVreg_EnableStreamMemOPs"}
    again = host.provision()
    assert (again.code, changes(again)) == (0, {"lab1": []}), again.messages


def test_the_collected_reboot_brings_the_rest_into_force(host: Host) -> None:
    rebooted = host.provision("--reboot")
    assert rebooted.code == 0, rebooted.messages + rebooted.output
    assert host.alarms() == {}
    assert host.on("cat /proc/cmdline").endswith(f"quiet iommu=pt {ACS} hugepagesz=1G hugepages=4")
    assert host.on("cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") == "performance"


POOL = "/sys/devices/system/node/node1/hugepages/hugepages"
DRIFT = {
    "host.sysctl": "sysctl -qw vm.swappiness=60",
    "host.tcp-buffers": "sysctl -qw net.ipv4.tcp_rmem='4096 131072 6291456'",
    "host.net-backlog": "sysctl -qw net.core.somaxconn=1024",
    "host.numa-balancing": "sysctl -qw kernel.numa_balancing=1",
    "host.transparent-hugepages": "echo always > /sys/kernel/mm/transparent_hugepage/enabled",
    "host.hugepages": f"echo 3 > {POOL}-2048kB/nr_hugepages; echo 1 > {POOL}-1048576kB/nr_hugepages",
    "host.governor": "echo powersave > /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
    "host.shm": "mount -o remount,size=100M /dev/shm",
    "host.memlock": "sed -i '/memlock/d' /etc/security/limits.d/90-qwenhost.conf",
    "host.next-boot": "systemctl -q disable qwenhost-tuning; rm /etc/tmpfiles.d/qwenhost-*.conf",
    "host.kernel-args": "rm /etc/default/grub.d/90-qwenhost.cfg; update-grub 2> /dev/null",
    "host.nvidia-options": "rm /etc/modprobe.d/qwenhost-nvidia.conf",
}


def test_each_drift_is_named_and_the_role_repairs_it(host: Host) -> None:
    tuned = host.state()
    for number, (check, command) in enumerate(DRIFT.items(), 1):
        host.on(command)
        assert set(host.alarms()) == set(list(DRIFT)[:number]), check
    drifted = host.state()
    repaired = host.provision()
    assert repaired.code == 0, repaired.messages + repaired.output
    assert set(changes(repaired)["lab1"]) == {"host_tuning"}
    assert host.alarms() == {}
    assert unstamped(host.state()) == unstamped(tuned)
    assert host.rollback().code == 0
    assert host.state() == drifted


def unstamped(state: str) -> list[str]:
    """Leave out the checksums of the two files that note the boot in which they were written."""
    lines = state.splitlines()
    noted = {at + 1 for at, line in enumerate(lines) if any(name in line for name in NOTED)}
    return [line for at, line in enumerate(lines) if at not in noted]


NOTED = ("90-qwenhost.cfg", "qwenhost-nvidia.conf")

SITE = {
    "/etc/sysctl.d/99-site.conf": "vm.swappiness = 60",
    "/etc/security/limits.d/95-site.conf": "* - memlock 64",
    "/etc/default/grub.d/95-site.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"',
}


def test_files_that_override_ours_are_named_and_left_alone(host: Host) -> None:
    assert host.provision().code == 0
    for path, line in SITE.items():
        host.on(f"echo '{line}' > {path}")
    host.on("update-grub 2> /dev/null")
    found = host.alarms()
    assert found.pop("host.kernel-args").split(", ") == [ACS, "hugepagesz=1G hugepages=4"]
    assert found == {"host.sysctl-files": "vm.swappiness", "host.memlock": "/etc/security/limits.d/95-site.conf:1"}
    left = host.provision("--reboot")
    assert (left.code, changes(left)) == (0, {"lab1": []}), left.messages
    host.on(f"rm {' '.join(SITE)}; update-grub 2> /dev/null")
    assert host.alarms() == {}


def test_all_runs_are_undone(host: Host) -> None:
    listed = run(QWENHOST, "rollback", host.inventory, "--list", "--json").output
    first = json.loads(listed)["hosts"][0]["runs"][0]["name"]
    undone = host.rollback("--to", first)
    assert undone.code == 0, undone.output + undone.messages
    assert host.state() == host.fresh
