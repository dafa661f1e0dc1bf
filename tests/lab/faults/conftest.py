"""One simulated host for runs that break off: how it is set up, killed, looked at and taken back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qwenhost.expectations.profiles import profile
from qwenhost.lab import lifecycle
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab
from qwenhost.lab.lifecycle import Simulated
from qwenhost.lab.simulator import install
from tests.lab.commands import CHECKOUT, QWENHOST, Command, bare_inventory, empty, on, run

LAB = Lab("faults")
BOARD, GPUS = "a100-80gb-pcie", 1
LIMIT_SECONDS = 300
WANTED = {
    "qwenhost_sku": BOARD,
    "qwenhost_gpus": GPUS,
    "qwenhost_profile": "serving",
    "qwenhost_hugepages": {"2M": 64},
    "qwenhost_mig": {0: "3g.40gb x2"},
}

STATE = """
cd / && find etc usr/local -not -type d 2>/dev/null | grep qwenhost | sort | while read -r file; do
    stat -c '%A %U %G %N' "$file"; [ -L "$file" ] || sha256sum "$file"; done
sysctl {keys}
grep -oE '\\[[a-z]+\\]|^[a-z]+$' /sys/kernel/mm/transparent_hugepage/enabled | tr -d '[]'
grep . /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages
nvidia-smi -L
"""
"""Lists what a provision changes here: files, among them which units are wanted, kernel settings, MIG devices."""

BARE = """
systemctl disable -q --now $(cd /etc/systemd/system; ls -d qwenhost-*.service) 2>/dev/null
rm -rf /etc/qwenhost /usr/local/lib/qwenhost /etc/systemd/system/qwenhost-*.service /etc/*/90-qwenhost.conf
rm -rf /etc/security/limits.d/90-qwenhost.conf /etc/tmpfiles.d/qwenhost-*.conf
systemctl daemon-reload
nvidia-smi mig -dci; nvidia-smi mig -dgi; nvidia-smi -mig 0
sysctl -qw net.ipv4.tcp_mtu_probing=0
echo always > /sys/kernel/mm/transparent_hugepage/enabled
echo 0 | tee /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages
true
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"))


@dataclass(frozen=True)
class Host:
    """The host, its inventory, and what a whole run makes of it."""

    folder: Path
    inventory: Path
    tasks: tuple[str, ...]
    """Task boundaries of a run on the bare host."""
    state: str

    def says(self, command: str) -> str:
        return on(LAB, "lab1", command)

    def tries(self, command: str) -> Command:
        return run(*ssh_command(LAB.named("lab1"), "root"), command)

    def until_reachable(self) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.tries("true").code != 0:
            assert time.monotonic() < deadline

    def make_bare(self) -> None:
        self.says(BARE)

    def provision(self, *options: str, inventory: Path | None = None) -> Command:
        return run(QWENHOST, "provision", str(inventory or self.inventory), "--yes", *options)

    def killed_at(self, boundary: int, task: str = "") -> str:
        """Kill a run with SIGKILL, its whole group, when it begins its n-th or the named task; return which."""
        events = self.folder / f"events-{time.monotonic_ns()}"
        running = start(self.inventory, events)
        begun = wait_for(running, events, lambda tasks: task in tasks if task else len(tasks) > boundary)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        return begun[-1]

    def assert_converges(self) -> None:
        """Run again: as if nothing had happened; and once more: nothing to change."""
        again = self.provision()
        assert again.code == 0, again.messages + again.output
        assert state(self.says) == self.state
        last = self.provision()
        assert last.messages.splitlines() == ["lab1: nothing to change"], last.messages
        print("the next run converged; the one after it had nothing to change")


def start(inventory: Path, events: Path, *options: str) -> subprocess.Popen[str]:
    """Begin a run in a process group of its own."""
    return subprocess.Popen(
        [QWENHOST, "provision", str(inventory), "--yes", "--events", str(events), *options],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(running: subprocess.Popen[str], events: Path, reached: Callable[[list[str]], bool]) -> list[str]:
    """Wait until the tasks that have begun are far enough, and return them."""
    while not reached(started(events)):
        with suppress(subprocess.TimeoutExpired):
            running.wait(timeout=0.02)
            told, _ = running.communicate()
            raise AssertionError(f"the run ended before it was reached:\n{told}")
    return started(events)


def started(events: Path) -> list[str]:
    """Return the tasks that have begun, in their order."""
    lines = events.read_text().splitlines() if events.exists() else []
    told: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("}")]
    return [f"{one['role']}: {one['task']}".lstrip(": ") for one in told if one["kind"] == "start"]


def state(says: Any) -> str:
    keys = " ".join(setting.key for setting in profile("serving").sysctl)
    return str(says(STATE.replace("{keys}", keys)))


@pytest.fixture(scope="package")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with empty(LAB):
        lifecycle.up(LAB, 1, Simulated(BOARD, GPUS), install)
        folder = tmp_path_factory.mktemp("inventory")
        inventory = bare_inventory(LAB, folder, **WANTED)
        running = start(inventory, folder / "events")
        told, _ = running.communicate(timeout=LIMIT_SECONDS)
        assert running.returncode == 0, told
        tasks = tuple(started(folder / "events"))
        yield Host(folder, inventory, tasks, state(lambda command: on(LAB, "lab1", command)))
