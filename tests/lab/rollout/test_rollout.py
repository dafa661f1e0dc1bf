"""Reboots only where they are allowed, once, in the middle of a run; batches that end with the first failure."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from qwenhost.lab.layout import Lab
from tests.lab.commands import QWENHOST, Command, alarms, empty, inventory_of, on, run

LAB = Lab("rollout")
SKU = "a100-80gb-pcie"

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root")]

DRIFT = "sysctl -qw vm.swappiness=33"
ARGUMENT = "mitigations=auto"
SWAPPINESS = "sysctl -n vm.swappiness"
HELD = '{"run": "x", "controller": "somebody@elsewhere process 1 of 2", "since": %s}'


@dataclass(frozen=True)
class Rollout:
    """Two hosts that are as declared."""

    inventory: Path
    fresh: dict[str, str]
    """Host -> its boot before the first provision."""
    first: Command

    def provision(self, *options: str) -> Command:
        return provision(self.inventory, *options)

    def fault(self, host: str, kind: str) -> None:
        assert run(QWENHOST, "lab", "fault", "--name", LAB.name, host, kind).code == 0


def provision(inventory: Path, *options: str) -> Command:
    return run(QWENHOST, "provision", str(inventory), "--yes", "--json", *options)


@pytest.fixture(scope="module")
def rollout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rollout]:
    folder = tmp_path_factory.mktemp("rollout")
    with empty(LAB), pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        up = run(QWENHOST, "lab", "up", "--name", LAB.name, "--hosts", "2", "--gpus", "1", "--sku", SKU)
        assert up.code == 0, up.messages
        fresh = {host: boot(host) for host in ("lab1", "lab2")}
        inventory = without_service(inventory_of(LAB, folder))
        yield Rollout(inventory, fresh, provision(inventory, "--reboot"))


def without_service(inventory: Path) -> Path:
    """Hosts whose settings are managed and nothing else; one has an argument for its kernel."""
    group = yaml.safe_load(inventory.read_text())["gpu_hosts"]
    group["vars"] |= {"qwenhost_sku": SKU, "qwenhost_gpus": 1, "qwenhost_hugepages": {"2M": 16}}
    group["hosts"] = {name: {"ansible_host": host["ansible_host"]} for name, host in group["hosts"].items()}
    group["hosts"]["lab2"]["qwenhost_kernel_args"] = [ARGUMENT]
    inventory.write_text(yaml.safe_dump({"gpu_hosts": group}))
    return inventory


def boot(host: str) -> str:
    return on(LAB, host, "cat /proc/sys/kernel/random/boot_id")


def tasks(done: Command, host: str) -> list[str]:
    told = next(each for each in done.report["hosts"] if each["host"] == host)
    return [change["task"] for change in told["changes"]]


def test_what_a_role_leaves_for_the_next_boot_is_in_force_after_the_run(rollout: Rollout) -> None:
    assert rollout.first.code == 0, rollout.first.messages
    assert "Reboot the host" not in tasks(rollout.first, "lab1")
    assert boot("lab1") == rollout.fresh["lab1"], "nothing waited there"
    assert tasks(rollout.first, "lab2")[-1] == "Reboot the host", (
        "after the role, once, with nothing left to change"
    )
    assert boot("lab2") != rollout.fresh["lab2"]
    assert ARGUMENT in on(LAB, "lab2", "cat /proc/cmdline").split()
    assert alarms(rollout.first.report["hosts"][1]["findings"]) == {}


def test_a_host_that_waits_is_rebooted_only_where_it_may_be_and_once(rollout: Rollout) -> None:
    rollout.fault("lab1", "gpu-held")
    on(LAB, "lab1", f"nvidia-smi -i 0 -mig 1; {DRIFT}")
    before = boot("lab1")

    unasked = rollout.provision("--limit", "lab1")
    assert unasked.code == 0, unasked.messages
    assert "waits for a reboot: mig.mode gpu0" in unasked.messages
    assert tasks(unasked, "lab1") == ["Bring the settings into force"]

    on(LAB, "lab1", DRIFT)
    preview = rollout.provision("--limit", "lab1", "--reboot", "--check")
    assert "lab1: will run host_tuning, then reboot" in preview.messages
    assert (boot("lab1"), on(LAB, "lab1", SWAPPINESS)) == (before, "33")

    allowed = rollout.provision("--limit", "lab1", "--reboot")
    assert allowed.code == 0, allowed.messages
    assert tasks(allowed, "lab1").count("Reboot the host") == 1
    assert boot("lab1") != before
    assert "mig.mode" not in alarms(allowed.report["hosts"][0]["findings"])
    assert on(LAB, "lab1", "ls /run/qwenhost") == "", "the lock of after the reboot was given back"
    kept = json.loads(on(LAB, "lab1", "cat $(ls -t /var/lib/qwenhost/runs/*.json | head -1)"))
    assert kept["sysctl"]["vm.swappiness"] == "33", "kept is what was there before the reboot"


def test_a_reason_that_outlasts_the_reboot_ends_the_run(rollout: Rollout) -> None:
    rollout.fault("lab2", "driver-mismatch")
    on(LAB, "lab2", DRIFT)
    before = boot("lab2")

    blocked = rollout.provision("--limit", "lab2")
    assert blocked.code == 1
    assert "driver.versions-agree host" in blocked.messages and "--reboot allows it" in blocked.messages
    assert (boot("lab2"), on(LAB, "lab2", SWAPPINESS)) == (before, "33")

    tried = rollout.provision("--limit", "lab2", "--reboot")
    assert tried.code == 1
    assert "still waits for a reboot after one: driver.versions-agree" in tried.messages
    assert tasks(tried, "lab2").count("Reboot the host") == 1
    assert boot("lab2") != before
    assert run(QWENHOST, "lab", "fault", "--name", LAB.name, "lab2", "--clear").code == 0


def test_no_other_batch_is_begun_after_a_failure(rollout: Rollout) -> None:
    on(LAB, "lab1", f"{DRIFT}; mkdir -p /run/qwenhost; cat > /run/qwenhost/lock <<X\n{HELD % '$(date +%s)'}\nX")
    on(LAB, "lab2", DRIFT)

    stopped = rollout.provision("--serial", "1", "--max-fail", "0")
    assert stopped.code == 1
    assert "stopped: lab1 failed; not begun: lab2" in stopped.messages
    assert on(LAB, "lab2", SWAPPINESS) == "33"

    gone_on = rollout.provision("--serial", "50%", "--max-fail", "1")
    assert gone_on.code == 1
    assert tasks(gone_on, "lab1") == [] and tasks(gone_on, "lab2") == ["Bring the settings into force"]
    on(LAB, "lab1", "rm /run/qwenhost/lock")


def test_a_run_that_changes_hosts_leaves_a_folder(rollout: Rollout) -> None:
    done = rollout.first
    found = re.search(r"report and events of this run: (\S+)", done.messages)
    assert found and {path.name for path in Path(found[1]).iterdir()} == {
        *("report.txt", "report.json", "report.html", "events.jsonl")
    }
    assert json.loads(Path(found[1], "report.json").read_text())["hosts"] == done.report["hosts"]
