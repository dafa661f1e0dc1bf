"""Hosts come out of inventories as Ansible has them; what is wrong is named before any host is contacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.records.errors import QwenhostError
from qwenhost.workflows.inventory import load_hosts

BROKEN = {
    "bad.ini": ("[gpu\nh1\n", "Ansible cannot read"),
    "port.ini": ("[gpu]\nh1 ansible_port=xx\n", "no port"),
    "undefined.yml": ('all:\n  hosts:\n    h1:\n      qwenhost_gpus: "{{ no }}"\n', ".yml:4: h1: qwenhost_gpus"),
    "typo.yml": ("all:\n  hosts:\n    h1:\n      qwenhost_gpu: 8\n", ".yml:4: h1: qwenhost_gpu"),
    "broken.yml": ("all:\n  hosts: {\n", "broken YAML"),
    "empty.yml": ("all: {}\n", "no hosts"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_refused(tmp_path: Path, name: str) -> None:
    content, told = BROKEN[name]
    tmp_path.joinpath(name).write_text(content)
    with pytest.raises(QwenhostError, match=told):
        load_hosts(tmp_path / name)


def test_missing_inventory_and_empty_limit(tmp_path: Path) -> None:
    with pytest.raises(QwenhostError, match="no such inventory"):
        load_hosts(tmp_path / "none.yml")
    tmp_path.joinpath("hosts.ini").write_text("[gpu]\nh1\n")
    with pytest.raises(QwenhostError, match="no host matches 'h2'"):
        load_hosts(tmp_path / "hosts.ini", "h2")


def test_connection_settings(tmp_path: Path) -> None:
    line = "h1 ansible_host=192.0.2.1 ansible_port=2222 ansible_become=false ansible_user=ops qwenhost_gpus=8"
    arguments = 'ansible_ssh_common_args="-o ProxyJump=jump -o UserKnownHostsFile=/k"'
    tmp_path.joinpath("hosts.ini").write_text(f"[gpu]\n{line} {arguments}\n")
    (host,) = load_hosts(tmp_path / "hosts.ini")
    assert (host.address, host.port, host.user, host.become) == ("192.0.2.1", 2222, "ops", False)
    assert host.known_hosts_file == "/k" and "ProxyJump=jump" in host.ssh_args
    assert host.variables == {"qwenhost_gpus": 8}
