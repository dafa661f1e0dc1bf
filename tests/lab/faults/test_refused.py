"""What is broken about a host before or while it is changed: one line says it, and nothing is half done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qwenhost.lab.layout import Lab
from tests.lab.commands import run
from tests.lab.faults.conftest import LAB, LIMIT_SECONDS, Host, start, wait_for

DRIFT = "sysctl -qw net.ipv4.tcp_mtu_probing=0; echo '# of an older version' >> /etc/sysctl.d/90-qwenhost.conf"
OURS = "/etc/sysctl.d/90-qwenhost.conf"
RUNS = "/var/lib/qwenhost/runs"


def told(messages: str, kind: str = "failed") -> list[str]:
    return [line for line in messages.splitlines() if line.startswith(f"lab1  {kind}")]


@contextmanager
def mounted(host: Host, folder: str, *steps: str) -> Iterator[None]:
    try:
        host.says(f"set -e; cp -a {folder} /run/kept; " + "; ".join(steps))
        yield
    finally:
        host.says(f"umount {folder}; rm -r /run/kept")


CUT_SECONDS = 6
CUT = "while :; do pkill -9 -f '[s]shd[^ ]*: root'; done"
"""Ends every connection, and each that is made meanwhile."""

FULL = ("mount -t tmpfs -o size=2m full {0}", "cp -a /run/kept/. {0}", "cat /dev/zero > {0}/ballast || true")
READ_ONLY = ("mount --bind {0} {0}", "mount -o remount,bind,ro {0}")


@pytest.mark.parametrize(
    ("folder", "steps", "reason"),
    [
        ("/etc/sysctl.d", FULL, "No space left on device"),
        ("/etc/sysctl.d", READ_ONLY, "Read-only file system"),
        (RUNS, FULL, "No space left on device"),
    ],
)
def test_what_cannot_be_written(host: Host, folder: str, steps: tuple[str, ...], reason: str) -> None:
    host.says(DRIFT)
    before = host.says(f"cat {OURS}")
    with mounted(host, folder, *(step.format(folder) for step in steps)):
        names = host.says(f"ls -A {folder}")
        failed = host.provision()
        assert failed.code == 1
        (line,) = told(failed.messages)
        assert reason in line
        print(line)
        assert host.says(f"cat {OURS}") == before
        assert host.says(f"ls -A {folder}") == names  # nothing half written beside it


def test_after_all_that_the_next_run_converges(host: Host) -> None:
    host.assert_converges()


def test_the_connection_is_cut_and_the_next_run_converges(host: Host) -> None:
    host.make_bare()
    events = host.folder / "cut"
    running = start(host.inventory, events)
    begun = wait_for(running, events, lambda tasks: any(task.startswith("host_tuning: Bring") for task in tasks))
    host.says(f'systemd-run --quiet --collect timeout {CUT_SECONDS} sh -c "{CUT}"')
    output, _ = running.communicate(timeout=LIMIT_SECONDS)
    print(f"cut at: {begun[-1]}\n{output}")
    assert running.returncode in (1, 3)
    assert len(told(output, "unreachable")) + len(told(output)) == 1
    assert "internal error" not in output
    host.until_reachable()
    host.assert_converges()


def test_hosts_that_cannot_be_entered_are_a_line_each_and_the_others_go_on(host: Host, tmp_path: Path) -> None:
    inventory = json.loads(host.inventory.read_text())
    group = inventory["gpu_hosts"]
    lab1 = group["hosts"]["lab1"]
    other_key = tmp_path / "known_hosts"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key"))
    public = (tmp_path / "key.pub").read_text().split()
    other_key.write_text(f"{lab1['ansible_host']} {public[0]} {public[1]}\n")
    group["hosts"] |= {
        "nosudo": lab1 | {"ansible_user": "nosudo", "ansible_become": True},
        "nopython": lab1 | {"ansible_python_interpreter": "/usr/bin/python9"},
        "gone": lab1 | {"ansible_host": Lab(LAB.name).address(2)},
        "changed": lab1
        | {"ansible_ssh_common_args": f"-o UserKnownHostsFile={other_key} -o StrictHostKeyChecking=yes"},
    }
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps(inventory))
    host.says(DRIFT)
    done = host.provision("--json", inventory=path)
    print(done.messages)
    assert done.code == 3
    errors = {one["host"]: one.get("error", "") for one in json.loads(done.output)["hosts"]}
    expected = {"nosudo": "sudo", "nopython": "python9", "gone": "", "changed": "key", "lab1": ""}
    for name, word in expected.items():
        assert word in errors[name], errors
        assert bool(errors[name]) == (name != "lab1")
        assert "\n" not in errors[name]
        lines = [line for line in done.messages.splitlines() if line.startswith(f"{name}: ")]
        assert len(lines) == 1, lines
    host.assert_converges()
