"""Two simulated hosts, provisioned once for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qwenhost.expectations.profiles import profile
from qwenhost.lab.layout import Lab
from tests.lab.commands import QWENHOST, Command, empty, inventory_of, on, run
from tests.lab.provisioned import planted

LAB = Lab("converge")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"))


@dataclass(frozen=True)
class Provisioned:
    """The hosts, and the first provision that made them serve."""

    inventory: Path
    fresh: dict[str, str]
    """Host -> its state before the first provision."""
    first: Command
    seen: set[str]
    """Where a planted secret was seen while that ran."""

    def qwenhost(self, *arguments: str) -> Command:
        return run(QWENHOST, *arguments)

    def doctor(self, host: str) -> tuple[Command, list[dict[str, Any]]]:
        done = self.qwenhost("doctor", host, "-i", str(self.inventory), "--json", "--no-state")
        return done, done.report["hosts"][0]["findings"]

    def provision(self, *options: str) -> Command:
        return self.qwenhost("provision", str(self.inventory), "--yes", "--json", *options)

    def on(self, host: str, command: str) -> str:
        return on(LAB, host, command)

    def state(self, host: str) -> str:
        return state(host)


STATE = """
cd / && { find etc usr/local opt/qwenhost/vllm/current var/lib/qwenhost/vllm -not -type d 2>/dev/null || true; } |
  grep -E 'qwenhost|vllm' | sort | while read -r file; do
    stat -c '%A %U %G %N' "$file"; [ -L "$file" ] || sha256sum "$file"; done
sysctl {keys}
cat /sys/kernel/mm/transparent_hugepage/enabled
grep . /sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages
nvidia-smi -L | grep -c MIG || true
systemctl list-units --plain --no-legend --state=active 'vllm@*' 'qwenhost-*' | cut -d' ' -f1
"""
"""Lists what a provision changes: files with modes and checksums, kernel settings, MIG devices, units."""


def state(host: str) -> str:
    keys = " ".join(setting.key for setting in profile("serving").sysctl)
    return on(LAB, host, STATE.replace("{keys}", keys))


@pytest.fixture(scope="package")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provisioned]:
    with empty(LAB), pytest.MonkeyPatch.context() as patch:
        inventory = inventory_of(LAB, tmp_path_factory.mktemp("inventory"))
        password = planted.plant(inventory)
        up = run(QWENHOST, "lab", "up", "--name", LAB.name, "--hosts", "2", "--with-model")
        assert up.code == 0, up.messages
        planted.want_a_password(LAB)
        fresh = {host: state(host) for host in ("lab1", "lab2")}
        patch.setenv("XDG_STATE_HOME", str(inventory.parent / "state"))
        patch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
        with planted.watched() as seen:
            first = run(QWENHOST, "provision", str(inventory), "--yes", "--json")
        yield Provisioned(inventory, fresh, first, seen)
