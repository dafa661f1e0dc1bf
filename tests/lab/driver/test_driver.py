"""The role gpu_driver on a simulated host: real APT, real dpkg, stand-ins for NVIDIA's packages.

The tests run in their order, on one host that calls itself Ubuntu: NVIDIA's packages changed their names there.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab
from tests.driver_repository import KERNEL, NEW, OLD, everything
from tests.lab.commands import QWENHOST, Command, bare_inventory, changes, empty, on, run

LAB = Lab("driver")
HOST = "lab1"
FOLDER = "/srv/nvidia"

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root")]

FILES = (
    "/etc/apt/apt.conf.d/52qwenhost-driver-upgrades",
    "/etc/apt/preferences.d/90-qwenhost-driver",
    "/etc/apt/sources.list.d/qwenhost-driver.sources",
    "/etc/modprobe.d/qwenhost-driver.conf",
    "/etc/systemd/system/nvidia-persistenced.service.d/qwenhost.conf",
)
PREPARE = f"""
tar -C {FOLDER} -x --no-same-owner
sed -i 's/^ID=.*/ID=ubuntu/; s/^VERSION_ID=.*/VERSION_ID="24.04"/' /usr/lib/os-release
mkdir -p /lib/modules/{KERNEL} && touch /boot/vmlinuz-{KERNEL}
"""
BREAK = f"""
cd {FOLDER} && dpkg --unpack libnvidia-compute-580_*.deb > /dev/null 2>&1
apt-mark unhold nvidia-persistenced nvidia-utils-580 > /dev/null
rm /lib/modules/{KERNEL}/updates/dkms/nvidia.ko /etc/modprobe.d/qwenhost-driver.conf
"""
"""As after a dpkg that was killed between two steps, and hands that meant well."""


@dataclass(frozen=True)
class Site:
    """The host's inventory, by the driver that it declares."""

    folder: Path

    def inventory(self, version: str) -> str:
        driver = {"version": version, "source": {"folder": FOLDER}}
        return str(bare_inventory(LAB, self.folder, qwenhost_gpus=8, qwenhost_driver=driver))

    def provision(self, version: str, *options: str) -> Command:
        return run(QWENHOST, "provision", self.inventory(version), "--yes", "--json", *options)

    def failures(self, version: str) -> set[str]:
        """Checks that fail, causes only."""
        done = run(QWENHOST, "doctor", HOST, "-i", self.inventory(version), "--json", "--no-state")
        findings: list[dict[str, Any]] = done.report["hosts"][0]["findings"]
        return {f["check"] for f in findings if f["verdict"] == "fail" and not f["cause"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with empty(LAB):
        up = run(QWENHOST, "lab", "up", "--name", LAB.name, "--hosts", "1")
        assert up.code == 0, up.messages
        folder = tmp_path_factory.mktemp("driver")
        packed = ["tar", "-C", everything(folder / "repository"), "--exclude=./build", "-c", "."]
        archive = subprocess.run(packed, capture_output=True, check=True)
        on(LAB, HOST, f"mkdir {FOLDER}")
        subprocess.run([*ssh_command(LAB.named(HOST), "root"), PREPARE], input=archive.stdout, check=True)
        yield Site(folder)


def packages() -> dict[str, str]:
    """Driver package -> dpkg's two letters and version, of all that dpkg knows something of."""
    form = "${Package} ${db:Status-Abbrev}${Version}\\n"
    lines = on(LAB, HOST, f"dpkg-query -W -f '{form}' '*nvidia*' 2> /dev/null || true").splitlines()
    known = (line.partition(" ") for line in lines)
    return {name: told for name, _, told in known if not told.startswith("un")}


def files() -> str:
    """Which of the role's files are there, and what is in them."""
    return on(LAB, HOST, f"for f in {' '.join(FILES)}; do sha256sum $f 2>/dev/null || true; done")


def tasks(done: Command) -> list[str]:
    return [change["task"] for change in done.report["hosts"][0]["changes"]]


def test_a_preview_tells_what_the_first_run_does(site: Site) -> None:
    before = (packages(), files())
    preview = site.provision(OLD, "--check", "--diff")
    assert (packages(), files()) == before
    first = site.provision(OLD)
    assert first.code == 0, first.messages + first.output
    assert tasks(preview) == tasks(first)
    assert set(changes(first)[HOST]) == {"gpu_driver"}


def test_all_packages_have_the_version_and_are_held(site: Site) -> None:
    found = packages()
    assert {"nvidia-dkms-580-open", "libnvidia-compute-580", "nvidia-fabricmanager"} <= set(found)
    assert all(told.startswith("hi") and OLD in told for told in found.values()), found
    assert on(LAB, HOST, "dkms status") == f"nvidia/{OLD}, {KERNEL}, x86_64: installed"
    assert files().count("\n") == len(FILES) - 1
    upgrades = "apt-config dump | grep -c 'Unattended-Upgrade::Package-Blacklist:: \"libnvidia-\"'"
    assert on(LAB, HOST, upgrades) == "1"
    assert on(LAB, HOST, "apt-get -s dist-upgrade | grep -c ^Inst.*nvidia || true") == "0"


def test_a_second_run_changes_nothing(site: Site) -> None:
    second = site.provision(OLD)
    assert (second.code, tasks(second)) == (0, [])


def test_a_version_that_is_not_there_changes_nothing(site: Site) -> None:
    before = (packages(), files())
    done = site.provision("580.99.99")
    assert done.code == 1
    assert re.search(rf"file:{FOLDER} has no libnvidia-compute-580 580\.99\.99 \(it has: {OLD}", done.messages)
    assert (packages(), files()) == before


def test_what_was_broken_is_repaired(site: Site) -> None:
    whole = (packages(), files())
    on(LAB, HOST, BREAK)
    assert site.failures(OLD) == {"driver.installed"}
    repaired = site.provision(OLD)
    assert repaired.code == 0, repaired.messages + repaired.output
    assert (packages(), files()) == whole


def test_another_branch_is_one_transaction_and_a_reboot(site: Site) -> None:
    runs = "grep -c '^Commandline: apt-get install' /var/log/apt/history.log"
    before = int(on(LAB, HOST, runs))
    moved = site.provision(NEW)
    assert int(on(LAB, HOST, runs)) == before + 1
    found = packages()
    assert not [name for name in found if "580" in name]
    assert all(told.startswith("hi") and NEW in told for told in found.values()), found
    assert on(LAB, HOST, "dkms status") == f"nvidia/{NEW}, {KERNEL}, x86_64: installed"
    assert moved.code != 0, "the host waits for a reboot, and nobody allowed one"
    assert site.failures(NEW) == {"driver.versions-agree"}
    rebooted = site.provision(NEW, "--reboot")
    assert rebooted.code == 0, rebooted.messages + rebooted.output
    assert site.failures(NEW) == set()


def test_a_rollback_restores_the_files_and_leaves_the_packages(site: Site) -> None:
    found = packages()
    for undone in ("the run that rebooted", "the run that moved the packages"):
        done = run(QWENHOST, "rollback", site.inventory(NEW), "--yes")
        assert done.code == 0, f"{undone}: {done.messages}"
    assert f"Pin: version {OLD}*" in on(LAB, HOST, f"cat {FILES[1]}")
    assert packages() == found
    assert site.failures(OLD) == {"driver.installed"}
