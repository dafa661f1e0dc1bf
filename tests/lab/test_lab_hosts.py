"""A whole lab on this machine: up, used, rebooted, broken with SIGKILL, mended, down."""

from __future__ import annotations

import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from qwenhost.cli import lab as cli
from qwenhost.lab import cgroups, hosts, lifecycle, network
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab, LabHost
from qwenhost.lab.lifecycle import HostStatus, Simulated
from qwenhost.records.errors import QwenhostError
from tests.lab.commands import CHECKOUT, empty, inventory_of

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root")]

LAB = Lab("trial")
ONE_GPU = Simulated("a100-sxm4-80gb", 1)
REBOOT_TIMEOUT_SECONDS = 60


def install(root: Path, sku: str, gpus: int) -> None:
    """In the simulator's place: a file, and a unit that marks each boot."""
    (root / "var/lib/simulated").write_text(f"{sku} {gpus}")
    units = root / "etc/systemd/system"
    (units / "mark.service").write_text(
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo boot >> /var/lib/boots'\n"
    )
    wants = units / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "mark.service").symlink_to("../mark.service")


def up(count: int = 2) -> list[HostStatus]:
    return lifecycle.up(LAB, count, ONE_GPU, install)


@pytest.fixture(scope="module", autouse=True)
def lab() -> Iterator[None]:
    with empty(LAB):
        yield


@pytest.fixture
def first() -> LabHost:
    assert all(host.running and host.state == "running" for host in up())
    return LAB.host(1)


def on(host: LabHost, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ssh_command(host, user), command], capture_output=True, text=True)


def says(host: LabHost, command: str) -> str:
    done = on(host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def boot_id(host: LabHost) -> str:
    return on(host, "cat /proc/sys/kernel/random/boot_id").stdout.strip()


def await_reboot(host: LabHost, before: str) -> str:
    deadline = time.monotonic() + REBOOT_TIMEOUT_SECONDS
    while (now := boot_id(host)) in ("", before):
        assert time.monotonic() < deadline, host.console.read_text()
        time.sleep(0.1)
    return now


def remains() -> dict[str, object]:
    """All that a lab can leave on the machine; every value is empty when it left nothing."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(LAB.folder) in line]
    groups = [str(path) for root in cgroups.hierarchies() for path in root.glob(cgroups.of_lab(LAB))]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    nspawn = [str(path) for path in Path("/run/systemd/nspawn").glob(f"*/{LAB.name}-*")]
    return {
        "mounts": mounts,
        "groups": groups,
        "namespaces": network.namespaces(LAB),
        "interface": Path("/sys/class/net", LAB.interface).exists(),
        "processes": [line for line in commands if f"--machine={LAB.name}-".encode() in line],
        "nspawn": nspawn,
        "folders": LAB.hosts(),
    }


def test_hosts_are_whole_systems(first: LabHost) -> None:
    assert (
        says(first, "hostname; systemctl --failed --no-legend; cat /var/lib/simulated") == "lab1\na100-sxm4-80gb 1"
    )
    assert on(first, "sudo -n id -u", user="operator").stdout.strip() == "0"
    refused = on(first, "sudo -n id -u", user="nosudo")
    assert refused.returncode != 0
    assert "password" in refused.stderr
    assert says(first, f"ssh-keyscan -t ed25519 {LAB.host(2).address} 2>/dev/null") in LAB.known_hosts.read_text()


def test_exec_passes_arguments_and_exit_code(first: LabHost, capfd: pytest.CaptureFixture[str]) -> None:
    run = ["exec", "--name", LAB.name, "lab1", "--"]
    done = CliRunner().invoke(cli.group, [*run, "sh", "-c", "echo $0 'a  b'; exit 7", "it's"])
    assert (done.exit_code, capfd.readouterr().out) == (7, "it's a  b\n")
    assert CliRunner().invoke(cli.group, [*run, "true && exit 5"]).exit_code == 5


def test_boot_ids_are_the_hosts_own(first: LabHost) -> None:
    machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert len({machine, boot_id(first), boot_id(LAB.host(2))}) == 3


def test_a_reboot_keeps_the_disk_and_applies_settings(first: LabHost) -> None:
    machine = {
        key: Path("/proc/sys", key).read_text()
        for key in ("net/core/rmem_max", "net/core/somaxconn", "fs/file-max")
    }
    lines = ["net.core.rmem_max=131072", "net.core.somaxconn=777", "fs.file-max=12345"]
    lines.append("net.ipv4.tcp_rmem=4096 65536 131072")
    says(first, f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} > /etc/sysctl.d/90-trial.conf")
    before, boots = boot_id(first), says(first, "cat /var/lib/boots")
    on(first, "systemctl reboot")
    await_reboot(first, before)
    assert says(first, "systemctl is-system-running --wait") == "running"
    keys = "net.core.rmem_max net.core.somaxconn fs.file-max net.ipv4.tcp_rmem"
    assert says(first, f"sysctl -n {keys}").split() == ["131072", "777", "12345", "4096", "65536", "131072"]
    assert says(first, "cat /var/lib/boots") == f"{boots}\nboot"
    assert {key: Path("/proc/sys", key).read_text() for key in machine} == machine


def test_nothing_but_the_proxy_leads_out(first: LabHost) -> None:
    began = time.monotonic()
    assert on(first, "curl -sS --max-time 20 http://192.0.2.1/").returncode == 7
    assert time.monotonic() - began < 10
    refused = on(first, f"curl -sS -x http://{LAB.machine_address}:3128 https://host.invalid/")
    assert "403" in refused.stderr
    assert "refused host.invalid:443" in LAB.proxy_log.read_text()


def test_packages_come_through_the_proxy(first: LabHost) -> None:
    assert "Reading package lists" in says(first, "apt-get update -o APT::Update::Error-Mode=any")
    says(first, "apt-get install -y -q --no-install-recommends hello && hello")


def test_a_running_lab_is_left_alone(first: LabHost) -> None:
    says(first, "touch /root/kept")
    before = lifecycle.status(LAB)
    assert up() == before
    says(first, "test -e /root/kept")


def test_another_sku_or_a_lab_of_the_same_addresses_is_refused(first: LabHost) -> None:
    with pytest.raises(QwenhostError, match="is up with 1 x a100-sxm4-80gb"):
        lifecycle.up(LAB, 2, dataclasses.replace(ONE_GPU, gpus=8), install)
    same_addresses = Lab("other376")
    assert same_addresses.network == LAB.network
    with pytest.raises(QwenhostError, match=r"10\.213\.63\.0/24 is in use .* on trial-lab"):
        lifecycle.up(same_addresses, 1, ONE_GPU, install)
    assert not same_addresses.folder.exists()


def test_only_one_command_at_a_time() -> None:
    with lifecycle.locked(LAB), pytest.raises(QwenhostError, match=f"pid {os.getpid()}"):
        lifecycle.down(LAB)


@pytest.mark.parametrize("victim", ["supervisor", "nspawn", "init"])
def test_up_mends_a_host_that_lost_a_part(first: LabHost, victim: str) -> None:
    says(first, "touch /root/kept")
    known = LAB.known_hosts.read_text()
    second = lifecycle.host_status(LAB.host(2))
    seen = lifecycle.host_status(first)
    assert seen.supervisor_pid and seen.init_pid
    pids = {"supervisor": seen.supervisor_pid, "nspawn": parent(seen.init_pid), "init": seen.init_pid}
    os.kill(pids[victim], signal.SIGKILL)
    await_dead(first)
    mended = up()
    assert mended[0].running and mended[0].ssh
    assert mended[0].supervisor_pid != seen.supervisor_pid
    assert mended[1] == second
    assert on(first, "test -e /root/kept").returncode == 1
    assert LAB.known_hosts.read_text() == known


def test_ansible_reaches_reboots_and_becomes(first: LabHost, tmp_path: Path) -> None:
    inventory = inventory_of(LAB, tmp_path)
    assert ansible(inventory, "gpu_hosts", "ping").count('"ping": "pong"') == 2
    before = boot_id(first)
    assert '"rebooted": true' in ansible(inventory, "lab1", "reboot", "-a", "reboot_timeout=60")
    assert boot_id(first) not in ("", before)
    assert "uid=0" in ansible(inventory, "lab1", "command", "-a", "id", "-u", "operator", "-b")


def test_the_inventory_is_the_default_labs() -> None:
    group = yaml.safe_load((CHECKOUT / "inventories/lab.yml").read_text())["gpu_hosts"]
    assert {name: host["ansible_host"] for name, host in group["hosts"].items()} == {
        host.name: host.address for host in (Lab().host(1), Lab().host(2))
    }
    assert group["vars"]["ansible_ssh_private_key_file"] == str(Lab().key)
    assert f"UserKnownHostsFile={Lab().known_hosts}" in group["vars"]["ansible_ssh_common_args"]


def test_down_leaves_nothing_but_the_keys(first: LabHost) -> None:
    key = LAB.key.read_text()
    lifecycle.down(LAB)
    assert not any(remains().values()), remains()
    assert LAB.key.read_text() == key
    assert lifecycle.status(LAB) == []
    lifecycle.down(LAB)


def test_down_clears_a_lab_whose_every_part_was_killed(first: LabHost) -> None:
    for pid in cgroups.processes(cgroups.of_lab(LAB)):
        cgroups.send(pid, signal.SIGKILL)
    await_dead(first)
    lifecycle.down(LAB)
    assert not any(remains().values()), remains()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def await_dead(host: LabHost) -> None:
    deadline = time.monotonic() + 20
    while hosts.running(host):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ansible(inventory: Path, pattern: str, module: str, *arguments: str) -> str:
    config = inventory.with_name("ansible.cfg")  # in place of one in the working folder or the user's home
    config.write_text("[defaults]\nstdout_callback = minimal\n")
    environment = os.environ | {"ANSIBLE_CONFIG": str(config)}
    command = [
        sys.executable,
        "-m",
        "ansible",
        "adhoc",
        "-i",
        str(inventory),
        pattern,
        "-m",
        f"ansible.builtin.{module}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
