"""Hosts come out of inventories as Ansible has them; what is wrong is named before any host is contacted."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from ansible import constants

from qwenhost.records.errors import QwenhostError
from qwenhost.workflows.inventory import load_hosts, refuse_one_host_twice

SCRIPTS = sysconfig.get_path("scripts")

BROKEN = {
    "bad.ini": ("[gpu\nh1\n", "Ansible cannot read"),
    "port.ini": ("[gpu]\nh1 ansible_port=xx\n", "no port"),
    "undefined.yml": ('all:\n  hosts:\n    h1:\n      qwenhost_gpus: "{{ no }}"\n', ".yml:4: h1: qwenhost_gpus"),
    "typo.yml": ("all:\n  hosts:\n    h1:\n      qwenhost_gpu: 8\n", ".yml:4: h1: qwenhost_gpu"),
    "broken.yml": ("all:\n  hosts: {\n", "broken YAML"),
    "empty.yml": ("all: {}\n", "no hosts"),
    "twice.yml": (
        "all:\n  hosts:\n    h1:\n      qwenhost_gpus: 8\n      qwenhost_gpus: 4\n",
        ".yml:5: qwenhost_gpus stands",
    ),
    "host_twice.yml": ("all:\n  hosts:\n    h1: {}\n    h1: {}\n", ".yml:4: h1 stands twice"),
    "tabs.yml": ("all:\n\thosts:\n", ".yml:2: broken YAML"),
    "slip.yml": ("all:\n  host:\n    h1:\n", ".yml:2: host in group all"),
    "no_group.yml": ("hosts:\n  h1:\n", ".yml:1: hosts, where a group is"),
    "listed.yml": ("all:\n  hosts:\n    - h1\n", ".yml:3: hosts of group all is a list"),
    "number.yml": ("all:\n  hosts:\n    10:\n", ".yml:3: host 10 has no text for a name"),
    "plain.yml": ("all:\n  hosts:\n    h1: 5\n", ".yml:3: host h1 has no variables but '5'"),
    "endless.yml": ("a: &a\n  children: {b: {children: {a: *a}}}\n", "stands in itself"),
    "blank.yml": ("all:\n  hosts:\n    h 1:\n", "'h 1' is no name of a host"),
    "loop.ini": ("[a:children]\nb\n[b:children]\na\n[a]\nh1\n", "Ansible cannot read this inventory: .*loop"),
    "nobody.ini": ("[a:children]\nb\n[a]\nh1\n", "includes undefined group 'b'"),
    "dash.yml": ("all:\n  hosts:\n    h1: {qwenhost-gpus: 8}\n", "qwenhost-gpus: unknown"),
    "capitals.yml": ("all:\n  hosts:\n    h1: {QWENHOST_GPUS: 8}\n", "QWENHOST_GPUS: unknown"),
    "nothing.yml": ("all:\n  hosts:\n    h1: {qwenhost_gpus: }\n", "qwenhost_gpus: has no value"),
    "run.ini": ("[a]\nh1 qwenhost_serial=2\n", "qwenhost_serial: steers a run"),
    "maybe.ini": ("[a]\nh1 qwenhost_reboot=perhaps\n", "'perhaps' is neither true nor false"),
    "docker.ini": ("[a]\nh1 ansible_connection=docker\n", "'docker' is neither ssh nor local"),
    "su.ini": ("[a]\nh1 ansible_become=true ansible_become_method=su\n", "'su' is not sudo"),
    "bob.ini": ("[a]\nh1 ansible_become=true ansible_become_user=bob\n", "'bob' is not root"),
    "jump.ini": ("[a]\nh1 ansible_ssh_common_args='-J bob@x:99999'\n", "'99999' is no port"),
    "quote.yml": (
        """all:\n  hosts:\n    h1: {ansible_ssh_common_args: "-o 'a"}\n""",
        ".yml:3: h1: ansible_ssh_common_args",
    ),
    "pair.yml": ("all:\n  hosts:\n    h1: {qwenhost_nvlink_pairs: [[0, 0]]}\n", "0 stands twice"),
}
"""File -> its content and what is said of it."""


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


def test_what_is_written_beside_the_inventory_counts(tmp_path: Path) -> None:
    tmp_path.joinpath("hosts.yml").write_text("gpu_hosts:\n  hosts:\n    h1:\n")
    folder = tmp_path / "group_vars"
    folder.joinpath("gpu_hosts").mkdir(parents=True)
    folder.joinpath("gpu_hosts", "plain").write_text("qwenhost_gpus: 4\n")
    tmp_path.joinpath("host_vars").mkdir()
    tmp_path.joinpath("host_vars", "h1.yml").write_text("qwenhost_gpus: 8\n")
    (host,) = load_hosts(tmp_path / "hosts.yml")
    assert host.variables == {"qwenhost_gpus": 8}
    folder.joinpath("gpu-hosts.yml").write_text("qwenhost_gpus: 2\n")
    with pytest.raises(QwenhostError, match="no group is called 'gpu-hosts', so nobody reads it") as caught:
        load_hosts(tmp_path / "hosts.yml")
    assert caught.value.hint == "did you mean gpu_hosts?"
    folder.joinpath("gpu-hosts.yml").write_text("- 1\n")
    with pytest.raises(QwenhostError, match=r"gpu-hosts\.yml:1: a list, where variables are"):
        load_hosts(tmp_path / "hosts.yml")


def test_anchors_ranges_and_other_alphabets(tmp_path: Path) -> None:
    text = "x: &x {vars: {qwenhost_gpus: 8}}\nall:\n  <<: *x\n  hosts:\n    gpu[01:02].example.net:\n    hôte:\n"
    tmp_path.joinpath("hosts.yml").write_text(text)
    hosts = load_hosts(tmp_path / "hosts.yml")
    assert [host.name for host in hosts] == ["gpu01.example.net", "gpu02.example.net", "hôte"]
    assert {host.variables["qwenhost_gpus"] for host in hosts} == {8}


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return path


def test_programs_tell_hosts_or_why_not(tmp_path: Path) -> None:
    groups = "{'gpu': {'hosts': ['h1'], 'vars': {'qwenhost_gpus': 8}}, '_meta': {'hostvars': {}}}"
    told = script(tmp_path / "told.py", f"import json; print(json.dumps({groups}))")
    assert load_hosts(told)[0].variables == {"qwenhost_gpus": 8}
    with pytest.raises(QwenhostError, match="no cloud today"):
        load_hosts(script(tmp_path / "broken.py", "import sys; sys.exit('no cloud today')"))
    with pytest.raises(QwenhostError, match="is no name of a host") as caught:
        load_hosts(script(tmp_path / "talks.py", "print('hello')"))
    assert "print JSON" in caught.value.hint


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory with a become password in a vault, and the file with the vault's password."""
    password = tmp_path / "password"
    password.write_text("open-Se5ame\n")
    plain = tmp_path / "group_vars" / "all.yml"
    plain.parent.mkdir()
    plain.write_text("ansible_become_password: planted-Pa55\nansible_become: true\n")
    subprocess.run(
        [f"{SCRIPTS}/ansible-vault", "encrypt", "--vault-password-file", str(password), str(plain)],
        check=True,
        capture_output=True,
    )
    tmp_path.joinpath("hosts.yml").write_text("all:\n  hosts:\n    h1:\n")
    monkeypatch.setattr(constants, "DEFAULT_VAULT_PASSWORD_FILE", str(password))
    return tmp_path / "hosts.yml"


def test_vaults_are_opened_with_the_password_that_ansible_takes(
    vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host,) = load_hosts(vault)
    assert (host.become, host.become_password) == (True, "planted-Pa55")
    assert "planted-Pa55" not in repr(host)
    monkeypatch.setattr(constants, "DEFAULT_VAULT_PASSWORD_FILE", None)
    with pytest.raises(QwenhostError, match="vault") as caught:
        load_hosts(vault)
    assert "--vault-password-file" in caught.value.hint


def test_two_names_of_one_machine(tmp_path: Path) -> None:
    line = "ansible_host=192.0.2.1 ansible_user=root"
    tmp_path.joinpath("hosts.ini").write_text(f"[gpu]\nh1 {line}\nh2 {line}\nh3 {line} ansible_port=2222\n")
    hosts = load_hosts(tmp_path / "hosts.ini")
    with pytest.raises(QwenhostError, match="h1 and h2 are one machine"):
        refuse_one_host_twice(hosts)
    refuse_one_host_twice(hosts[1:])
