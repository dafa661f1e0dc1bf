"""host_tuning and gpu_partitions on a booted host: converged, unchanged, drifted, rebooted, taken back."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qwenhost.lab import lifecycle
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab
from qwenhost.lab.lifecycle import Simulated
from qwenhost.lab.simulator import install
from tests.lab.commands import empty
from tests.roles.playbook import Played, run_role

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root")]

LAB = Lab("roles")
HOST = LAB.host(1)
REBOOT_TIMEOUT_SECONDS = 60
TUNING = {
    "host_tuning_sysctl": {"net.ipv4.tcp_rmem": "4096 131072 134217728", "vm.swappiness": "1"},
    "host_tuning_hugepages": [{"node": node, "size_kib": 2048, "pages": 512} for node in (0, 1)],
    # Also what a lab host boots with: its stand-in is bound after systemd-tmpfiles has run.
    "host_tuning_transparent_hugepages": "madvise",
    "host_tuning_limits": {"memlock": "unlimited"},
}
TOO_MANY = {"gpu_partitions_layout": [{"gpu": 0, "mig": True, "instances": ["1g.10gb", "3g.40gb", "3g.40gb"]}]}
SPLIT = {"gpu_partitions_layout": [{"gpu": 0, "mig": True, "instances": ["3g.40gb", "3g.40gb"]}]}
WHOLE = {"gpu_partitions_layout": [{"gpu": 0, "mig": False, "instances": []}]}
SETTINGS = (
    "cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/vm/swappiness; "
    "grep -oE '\\[[a-z]+\\]|^[a-z]+$' /sys/kernel/mm/transparent_hugepage/enabled | tr -d '[]'; "
    "cat /sys/devices/system/node/node[01]/hugepages/hugepages-2048kB/nr_hugepages"
)
IN_FORCE = ["4096\t131072\t134217728", "1", "madvise", "512", "512"]
DRIFT = (
    "echo 60 > /proc/sys/vm/swappiness; echo always > /sys/kernel/mm/transparent_hugepage/enabled; "
    "echo 3 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
)


@pytest.fixture(scope="module", autouse=True)
def lab() -> Iterator[None]:
    with empty(LAB):
        lifecycle.up(LAB, 1, Simulated("a100-sxm4-80gb", 2), install)
        yield


def says(command: str) -> list[str]:
    done = subprocess.run([*ssh_command(HOST), command], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def apply(folder: Path, role: str, arguments: dict[str, Any], *options: str) -> Played:
    """Run a role on the lab's host."""
    variables = {
        "ansible_host": HOST.address,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(LAB.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={LAB.known_hosts} -o StrictHostKeyChecking=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = folder / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {HOST.name: variables}}}))
    return run_role(folder, role, arguments, str(inventory), *options)


def reboot() -> None:
    before = says("cat /proc/sys/kernel/random/boot_id")
    says("systemctl reboot")
    deadline = time.monotonic() + REBOOT_TIMEOUT_SECONDS
    while (now := says("cat /proc/sys/kernel/random/boot_id")) in ([], before):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert now != before
    assert says("systemctl is-system-running --wait") == ["running"]


def test_tuning_converges_holds_and_comes_back(tmp_path: Path) -> None:
    first = apply(tmp_path, "host_tuning", TUNING)
    assert first.status == 0, first.output
    assert says(SETTINGS) == IN_FORCE
    assert apply(tmp_path, "host_tuning", TUNING).changed == ()
    says(DRIFT)
    repaired = apply(tmp_path, "host_tuning", TUNING)
    assert repaired.changed == ("Bring the settings into force",), repaired.output
    assert says(SETTINGS) == IN_FORCE
    reboot()
    assert says(SETTINGS) == IN_FORCE


def test_partitions_converge_come_back_and_go(tmp_path: Path) -> None:
    preview = apply(tmp_path, "gpu_partitions", SPLIT, "--check", "--diff")
    assert preview.status == 0, preview.output
    assert "+gpu 0: MIG on: 3g.40gb, 3g.40gb" in preview.output
    assert apply(tmp_path, "gpu_partitions", SPLIT).status == 0
    assert apply(tmp_path, "gpu_partitions", SPLIT).changed == ()
    reboot()
    assert sum("MIG 3g.40gb" in line for line in says("nvidia-smi -L")) == 2
    assert apply(tmp_path, "gpu_partitions", WHOLE).status == 0
    assert not any("MIG" in line for line in says("nvidia-smi -L"))
    assert says("ls /etc/systemd/system/qwenhost-mig.service /etc/qwenhost/mig.json") == []


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    before = says("nvidia-smi -L")
    refused = apply(tmp_path, "gpu_partitions", TOO_MANY)
    assert refused.status == 2
    assert any("do not fit together" in message for message in refused.failures), refused.output
    assert says("nvidia-smi -L") == before
    assert says("ls /etc/systemd/system/qwenhost-mig.service /etc/qwenhost/mig.json") == []
