"""What a run changed is undone: files byte by byte, run-time values, MIG layout, units."""

from __future__ import annotations

import json

from tests.lab.commands import Command, changes
from tests.lab.provisioned.conftest import Provisioned


def rollback(provisioned: Provisioned, *options: str) -> Command:
    return provisioned.qwenhost("rollback", str(provisioned.inventory), "--limit", "lab2", *options)


def test_the_last_run_is_undone(provisioned: Provisioned) -> None:
    provisioned.on(
        "lab2",
        "sysctl -qw net.ipv4.tcp_mtu_probing=0; rm /etc/security/limits.d/90-qwenhost.conf;"
        "nvidia-smi mig -i 0 -dci && nvidia-smi mig -i 0 -dgi",
    )
    drifted = provisioned.state("lab2")
    assert provisioned.provision("--limit", "lab2").code == 0
    assert provisioned.state("lab2") != drifted
    undone = rollback(provisioned, "--yes")
    assert undone.code == 0, undone.output + undone.messages
    provisioned.on("lab2", "systemctl start vllm@main")  # waits until it is ready
    assert provisioned.state("lab2") == drifted


def test_all_runs_are_undone_and_the_host_can_be_provisioned_again(provisioned: Provisioned) -> None:
    runs = json.loads(rollback(provisioned, "--list", "--json").output)["hosts"][0]["runs"]
    preview = rollback(provisioned, "--to", runs[0]["name"], "--check")
    assert "-unit vllm@main.service runs" in preview.output.replace(" -", "-")
    undone = rollback(provisioned, "--to", runs[0]["name"], "--yes")
    assert undone.code == 0, undone.output + undone.messages
    assert provisioned.state("lab2") == provisioned.fresh["lab2"]
    again = provisioned.provision("--limit", "lab2")
    assert again.code == 0, again.messages
    assert set(changes(again)["lab2"]) == {"host_tuning", "gpu_partitions", "vllm_service"}


def test_a_held_host_is_left_alone(provisioned: Provisioned) -> None:
    lock = '{"run": "x", "controller": "somebody@elsewhere process 1 of 2", "since": $(date +%s)}'
    provisioned.on(
        "lab2",
        f"sysctl -qw net.ipv4.tcp_mtu_probing=0; mkdir -p /run/qwenhost; cat > /run/qwenhost/lock <<X\n{lock}\nX",
    )
    refused = provisioned.provision("--limit", "lab2")
    assert refused.code == 1
    assert "another run holds this host: x of somebody@elsewhere" in refused.messages + refused.output
    assert provisioned.on("lab2", "sysctl -n net.ipv4.tcp_mtu_probing") == "0"
    provisioned.on("lab2", "rm /run/qwenhost/lock")
    assert provisioned.provision("--limit", "lab2").code == 0
