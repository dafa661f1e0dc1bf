"""Runs a role in a real ansible-playbook: on this machine as a preview, or on a lab host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Played:
    """What came of a run: tasks that changed something or failed, by name, and the failures' messages."""

    status: int
    changed: tuple[str, ...]
    failures: tuple[str, ...]
    tasks: tuple[str, ...]
    output: str


def run_role(
    folder: Path, role: str, arguments: dict[str, Any], inventory: str, *options: str, **environment: str
) -> Played:
    """Run `role` with `arguments` on the hosts of `inventory`."""
    playbook = folder / "play.yml"
    tasks = [{"name": "Role", "ansible.builtin.include_role": {"name": role}, "vars": arguments}]
    playbook.write_text(json.dumps([{"name": "Play", "hosts": "all", "gather_facts": False, "tasks": tasks}]))
    program = Path(sys.executable).with_name("ansible-playbook")
    variables = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "ANSIBLE_NOCOLOR": "1",
        **environment,
    }
    ran = subprocess.run(
        [program, "-i", inventory, *options, playbook],
        capture_output=True,
        text=True,
        env=variables,
        check=False,
    )
    return _read(ran)


def _read(ran: subprocess.CompletedProcess[str]) -> Played:
    """Read the default callback's output: a heading per task, then a line per result."""
    task, tasks, changed, failures = "", [], [], []
    for line in ran.stdout.splitlines():
        if line.startswith("TASK ["):
            task = line[len("TASK [") : line.rindex("]")].split(" : ")[-1]
        elif line.startswith(("ok: ", "changed: ")):
            tasks.append(task)
            changed += [task] * (line.startswith("changed: ") and task not in changed)
        elif line.strip().startswith("msg:"):
            failures.append(line.strip()[len("msg:") :].strip().strip("'"))
    return Played(ran.returncode, tuple(changed), tuple(failures), tuple(tasks), ran.stdout + ran.stderr)
