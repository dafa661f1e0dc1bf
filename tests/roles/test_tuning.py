"""The roles host_tuning and gpu_partitions: what they write, and what they preview and refuse."""

from __future__ import annotations

import configparser
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from qwenhost.facts.limits import OWN, configured
from qwenhost.records.bundle import Capture
from tests.roles.playbook import ROOT, Played, run_role

TUNING = {
    "host_tuning_sysctl": {"net.ipv4.tcp_rmem": "4096 131072 134217728", "vm.swappiness": "1"},
    "host_tuning_hugepages": [{"node": 0, "size_kib": 2048, "pages": 512}],
    "host_tuning_transparent_hugepages": "madvise",
    "host_tuning_limits": {"memlock": "unlimited", "nofile": 1048576},
}
SETTINGS = {
    "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
    "proc/sys/vm/swappiness": "60\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree in the place of /proc and /sys."""
    for name, text in SETTINGS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def preview(root: Path, role: str, arguments: dict[str, Any], *options: str, **environment: str) -> Played:
    """Run a role on this machine in check mode: it reads the tree and writes nothing."""
    local = ("-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", "--check")
    environment = {"QWENHOST_ROOT": str(root), **environment}
    return run_role(root, role, arguments, "localhost,", *local, *options, **environment)


def rendered(name: str, **variables: Any) -> str:
    text = (ROOT / "templates" / name).read_text()
    role = "gpu_partitions" if "mig" in name else "host_tuning"
    fixed = yaml.safe_load((ROOT / "roles" / role / "vars/main.yml").read_text())
    everything = {"ansible_managed": "Ansible managed", "role_path": "", **fixed, **variables}
    return str(Templar(loader=DataLoader(), variables=everything).template(trust_as_template(text)))


@pytest.mark.slow
def test_preview_names_every_change_and_changes_nothing(root: Path) -> None:
    played = preview(root, "host_tuning", TUNING)
    assert played.status == 0, played.output
    assert played.changed == ("Bring the settings into force",)
    assert {name: (root / name).read_text() for name in SETTINGS} == SETTINGS


@pytest.mark.slow
def test_a_setting_that_this_kernel_lacks_is_named(root: Path) -> None:
    played = preview(root, "host_tuning", {"host_tuning_sysctl": {"vm.no_such_setting": "1"}})
    assert played.status == 2
    assert any("vm.no_such_setting" in message for message in played.failures), played.output


@pytest.mark.slow
def test_arguments_are_checked_before_anything_runs(root: Path) -> None:
    played = preview(root, "host_tuning", {"host_tuning_transparent_hugepages": "sometimes"})
    assert played.status == 2
    assert "sometimes" in played.output
    assert not any(task.startswith("Bring") for task in played.tasks)


@pytest.mark.slow
def test_nothing_is_done_for_no_layout(root: Path) -> None:
    played = preview(root, "gpu_partitions", {"gpu_partitions_layout": []})
    assert played.status == 0, played.output
    assert played.changed == ()
    assert not any("Partition" in task for task in played.tasks)


def test_kernel_settings_are_written_in_the_form_of_sysctl() -> None:
    text = rendered("sysctl.conf.j2", **TUNING)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines == ["net.ipv4.tcp_rmem = 4096 131072 134217728", "vm.swappiness = 1"]
    assert text.endswith("\n")


def test_limits_are_those_that_the_checks_read() -> None:
    text = rendered("limits.conf.j2", **TUNING)
    capture = Capture("limits-qwenhost", "ok", text, origin=OWN)
    assert configured(capture).values == {"memlock": "unlimited", "nofile": "1048576"}


@pytest.mark.parametrize("name", ["qwenhost-mig", "qwenhost-tuning"])
def test_boot_units_end_in_time_and_run_the_installed_program(name: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(rendered(f"{name}.service.j2"))
    assert unit["Service"]["Type"] == "oneshot"
    assert int(unit["Service"]["TimeoutStartSec"]) <= 480
    assert unit["Service"]["ExecStart"].startswith("/usr/bin/python3 /usr/local/lib/qwenhost/hands.pyz ")
    assert unit["Service"]["ExecStart"].endswith(f"--config {unit['Unit']['ConditionPathExists']}")
    assert unit["Install"]["WantedBy"] == "multi-user.target"
