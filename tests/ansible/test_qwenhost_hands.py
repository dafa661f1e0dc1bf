"""The action plugin in a real ansible-playbook, over the local connection, on a tree in the place of /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from qwenhost.ansible.action.qwenhost_hands import ACTS, ARGUMENTS, read_answer
from qwenhost.ansible.modules import qwenhost_hands as documentation
from qwenhost.hands import main

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = """
- name: Try the hands
  hosts: all
  tasks:
    - name: Act
      qwenhost_hands:
        act: sysctl
        request: {values: {%s: "10"}}
      register: outcome
      ignore_errors: true
    - name: Tell
      ansible.builtin.copy:
        content: "{{ outcome | to_json }}"
        dest: %s
        mode: "0600"
      check_mode: false
"""


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "proc/sys/vm/swappiness"
    path.parent.mkdir(parents=True)
    path.write_text("60\n")
    return path


def play(root: Path, *arguments: str, key: str = "vm.swappiness") -> dict[str, Any]:
    """Run the playbook with the project's ansible.cfg and return what its first task registered."""
    playbook, told = root / "play.yml", root / "told.json"
    playbook.write_text(PLAYBOOK % (key, told))
    program = Path(sys.executable).with_name("ansible-playbook")
    python = f"ansible_python_interpreter={sys.executable}"
    command = [program, "-i", "localhost,", "-c", "local", "-e", python, *arguments, playbook]
    places = {"ANSIBLE_HOME": str(root / "ansible"), "QWENHOST_ROOT": str(root)}
    environment = {**os.environ, **places, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result: dict[str, Any] = json.loads(told.read_text())
    return result


@pytest.mark.slow
def test_check_then_change_then_nothing(setting: Path) -> None:
    root = setting.parents[3]
    checked = play(root, "--check", "--diff")
    assert setting.read_text() == "60\n"
    changed = play(root, "--diff")
    assert setting.read_text() == "10\n"
    again = play(root)
    assert [checked["changed"], changed["changed"], again["changed"]] == [True, True, False]
    shown = {"before": "vm.swappiness = 60\n", "after": "vm.swappiness = 10\n"}
    assert checked["diff"] == changed["diff"] == shown
    assert changed["before"] == ["vm.swappiness = 60"]
    assert changed["reboot_required"] is False
    assert not list(root.glob("ansible/tmp/ansible-tmp-*"))


@pytest.mark.slow
def test_failure_is_the_hands_own_line(setting: Path) -> None:
    failed = play(setting.parents[3], key="vm.nonesuch")
    assert failed["failed"] is True
    assert failed["msg"].endswith("sysctl: vm.nonesuch: this kernel has no such setting")


def test_documentation_names_every_act() -> None:
    options = yaml.safe_load(documentation.DOCUMENTATION)["options"]
    assert tuple(options["act"]["choices"]) == ACTS
    assert set(ACTS) <= set(main.ACTS)  # the acts of a run have a plugin of their own
    assert set(options) == set(ARGUMENTS)
    assert yaml.safe_load(documentation.EXAMPLES) and yaml.safe_load(documentation.RETURN)


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        ({"rc": 127, "stdout": "", "stderr": "sh: 1: python3: not found\n"}, "python3: not found"),
        ({"rc": 0, "stdout": "Last login: never\n", "stderr": ""}, "Last login: never"),
        ({"rc": 1, "stdout": "{}", "stderr": ""}, "exit 1"),
        ({"rc": 255, "stdout": "", "stderr": ""}, "exit 255"),
    ],
)
def test_no_answer_is_an_error(ran: dict[str, Any], told: str) -> None:
    assert told in read_answer(ran)["error"]
