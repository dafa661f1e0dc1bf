"""From bare to serving; again without a change; drift repaired; a reboot survived."""

from __future__ import annotations

import pytest

from tests.lab.commands import SCRIPTS, alarms, changes, run
from tests.lab.provisioned.conftest import Provisioned

ROLES = {"host_tuning", "gpu_partitions", "vllm_service"}
HOSTS = ("lab1", "lab2")


def test_bare_hosts_are_tuned_partitioned_and_serve(provisioned: Provisioned) -> None:
    first = provisioned.first
    assert first.code == 0, first.messages + first.output
    changed = changes(first)
    assert set(changed["lab2"]) == ROLES  # the one with MIG
    assert set(changed["lab1"]) == ROLES - {"gpu_partitions"}
    for host in first.report["hosts"]:
        verdicts = {f["check"]: f["verdict"] for f in host["findings"]}
        assert verdicts["smoke.completion"] == verdicts["smoke.key-refused"] == verdicts["vllm.ready"] == "pass"


def test_the_second_run_changes_nothing_and_starts_no_ansible(provisioned: Provisioned) -> None:
    again = provisioned.provision()
    assert again.code == 0, again.messages
    assert changes(again) == {host: [] for host in HOSTS}
    assert again.messages.splitlines() == [f"{host}: nothing to change" for host in HOSTS]


def test_plain_ansible_finds_nothing_to_change_either(provisioned: Provisioned) -> None:
    done = run(
        f"{SCRIPTS}/ansible-playbook",
        "-i",
        str(provisioned.inventory),
        "playbooks/provision.yml",
    )
    assert done.code == 0, done.output + done.messages
    recap = [line for line in done.output.splitlines() if "changed=" in line]
    assert len(recap) == len(HOSTS)
    assert all("changed=0" in line and "failed=0" in line for line in recap)


DRIFT = {
    "sysctl": ("sysctl -qw net.ipv4.tcp_mtu_probing=0", "host.sysctl", "host_tuning"),
    "tcp-buffers": ("sysctl -qw net.ipv4.tcp_rmem='4096 131072 6291456'", "host.tcp-buffers", "host_tuning"),
    "hugepages": (
        "echo 3 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages",
        "host.hugepages",
        "host_tuning",
    ),
    "thp": (
        "echo always > /sys/kernel/mm/transparent_hugepage/enabled",
        "host.transparent-hugepages",
        "host_tuning",
    ),
    "limits": ("rm /etc/security/limits.d/90-qwenhost.conf", "host.memlock", "host_tuning"),
    "mig": ("nvidia-smi mig -i 0 -dci && nvidia-smi mig -i 0 -dgi", "mig.layout", "gpu_partitions"),
}


@pytest.mark.parametrize("kind", DRIFT)
def test_drift_is_named_and_repaired_by_its_role_alone(provisioned: Provisioned, kind: str) -> None:
    command, check, role = DRIFT[kind]
    provisioned.on("lab2", command)
    _, findings = provisioned.doctor("lab2")
    assert check in alarms(findings)
    repaired = provisioned.provision("--limit", "lab2")
    assert repaired.code == 0, repaired.messages
    assert set(changes(repaired)["lab2"]) == {role}


def test_check_mode_says_what_would_change_and_changes_nothing(provisioned: Provisioned) -> None:
    provisioned.on("lab1", "sysctl -qw net.ipv4.tcp_mtu_probing=0")
    preview = provisioned.provision("--limit", "lab1", "--check")
    assert set(changes(preview)["lab1"]) == {"host_tuning"}
    assert provisioned.on("lab1", "sysctl -n net.ipv4.tcp_mtu_probing") == "0"
    assert provisioned.provision("--limit", "lab1").code == 0
    assert provisioned.on("lab1", "sysctl -n net.ipv4.tcp_mtu_probing") == "1"


def test_a_reboot_brings_everything_back(provisioned: Provisioned) -> None:
    before = provisioned.on("lab2", "cat /proc/sys/kernel/random/boot_id")
    rebooted = run(
        f"{SCRIPTS}/ansible",
        "lab2",
        "-i",
        str(provisioned.inventory),
        "-m",
        "ansible.builtin.reboot",
        "-a",
        "reboot_timeout=120",
    )
    assert rebooted.code == 0, rebooted.output
    assert provisioned.on("lab2", "cat /proc/sys/kernel/random/boot_id") != before
    provisioned.on("lab2", "systemctl start vllm@main")  # waits until it is ready
    done, findings = provisioned.doctor("lab2")
    assert alarms(findings) == {}, done.output
    assert done.code == 0
