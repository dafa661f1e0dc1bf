"""A provision with one reboot on a virtual machine, whose kernel and boot loader are its own.

Containers show the way of all settings but these: GRUB's real menu, pages that a real kernel reserves, and what
a real boot brings back. Serving is not proven here: vLLM does not start in useful time under emulation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qwenhost.lab.layout import Lab
from qwenhost.lab.simulator import install_on_kernel
from qwenhost.lab.vm.guest import CONSOLE, OWNERS
from qwenhost.lab.vm.lifecycle import up
from qwenhost.lab.vm.machine import LOOPBACK, VirtualMachine, console
from tests.lab.commands import QWENHOST, Command, bare_inventory, changes, empty, run

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
]

LAB = Lab("vm")
SKU = "a100-80gb-pcie"
PAGES = {"2M": {"0": 96, "1": 64}, "1G": {"1": 1}}
ARGUMENTS = "numa_balancing=disable hugepagesz=1G hugepages=1:1"


@dataclass(frozen=True)
class Rebooted:
    """The machine after the provision that rebooted it, and what that said."""

    machine: VirtualMachine
    done: Command
    folder: Path

    def says(self, command: str) -> str:
        answer = self.machine.says(command)
        assert answer is not None, console(self.machine)
        return answer

    def provision(self, *options: str, **variables: Any) -> Command:
        return provision(self.machine, self.folder, *options, **variables)


def provision(machine: VirtualMachine, folder: Path, *options: str, **variables: Any) -> Command:
    declared = {
        "ansible_host": LOOPBACK,
        "ansible_port": machine.port,
        "qwenhost_sku": SKU,
        "qwenhost_gpus": 1,
        "qwenhost_profile": "serving",
        "qwenhost_kernel_args": ["numa_balancing=disable"],
        "qwenhost_hugepages": PAGES,
        "qwenhost_mig": {"0": "3g.40gb x2"},
    }
    inventory = bare_inventory(LAB, folder, **declared | variables)
    return run(QWENHOST, "provision", str(inventory), "--yes", "--json", *options)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebooted]:
    folder = tmp_path_factory.mktemp("inventory")
    with empty(LAB):
        machine = up(LAB, SKU, 1, install_on_kernel)
        yield Rebooted(machine, provision(machine, folder, "--reboot"), folder)


def test_grub_gives_the_kernel_its_arguments_after_the_owners(host: Rebooted) -> None:
    assert host.done.code == 0, host.done.messages + console(host.machine)
    assert set(changes(host.done)["lab1"]) == {"host_tuning", "gpu_partitions", ""}
    tasks = [change["task"] for change in host.done.report["hosts"][0]["changes"]]
    assert tasks[-1] == "Reboot the host"
    assert host.says("journalctl --list-boots --quiet").count("\n") == 1  # two boots
    given = host.says("cat /proc/cmdline").split(" ro ")[1]
    assert given == f"{CONSOLE} {OWNERS} {ARGUMENTS}"


def test_the_kernel_reserves_the_pages_of_each_node(host: Rebooted) -> None:
    sizes = {"2048kB": (96, 64), "1048576kB": (0, 1)}
    for size, pages in sizes.items():
        pools = f"/sys/devices/system/node/node[01]/hugepages/hugepages-{size}"
        assert host.says(f"cat {pools}/nr_hugepages").split() == [str(count) for count in pages]
    assert f"Hugetlb: {(160 * 2 + 1024) * 1024:15} kB" in host.says("cat /proc/meminfo")


def test_the_kernel_takes_the_settings_and_has_them_after_the_boot(host: Rebooted) -> None:
    assert host.says("cat /sys/kernel/mm/transparent_hugepage/enabled") == "always [madvise] never"
    keys = "net.core.rmem_max vm.swappiness net.ipv4.tcp_rmem kernel.numa_balancing"
    assert host.says(f"sysctl -n {keys}").split() == ["134217728", "1", "4096", "131072", "134217728", "0"]


def test_the_boot_unit_makes_the_mig_instances_again(host: Rebooted) -> None:
    assert host.says("nvidia-smi -L").count("MIG 3g.40gb") == 2
    lines = host.says("journalctl -b -o cat -u qwenhost-mig.service").splitlines()
    told = json.loads(next(line for line in lines if line.startswith("{")))
    assert told["before"] == ["gpu 0: MIG on: no instances"]
    assert told["after"] == ["gpu 0: MIG on: 3g.40gb, 3g.40gb"]
    assert host.says("systemctl --failed --no-legend") == ""


def test_a_second_run_changes_nothing(host: Rebooted) -> None:
    again = host.provision("--reboot")
    assert again.code == 0, again.messages
    assert again.messages.splitlines() == ["lab1: nothing to change"]


def test_fewer_pages_than_declared_are_refused_with_both_numbers(host: Rebooted) -> None:
    """Node 1 has 2 GiB, and not all of the second one is free."""
    refused = host.provision(qwenhost_hugepages=PAGES | {"1G": {"1": 2}})
    assert refused.code == 1
    assert "node 1: 2 pages of 1048576 KiB wanted, 1 there" in refused.messages
