"""What lab tests run: a lab of their own, its inventory, commands of this machine and of lab hosts."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qwenhost.lab import lifecycle, network
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab
from qwenhost.records.errors import QwenhostError

CHECKOUT = Path(__file__).parents[2]
SCRIPTS = sysconfig.get_path("scripts")
QWENHOST = f"{SCRIPTS}/qwenhost"
LIMIT_SECONDS = 1200


@dataclass(frozen=True)
class Command:
    """What a finished command said."""

    code: int
    output: str
    messages: str

    @property
    def report(self) -> dict[str, Any]:
        return json.loads(self.output)


@contextmanager
def empty(lab: Lab) -> Iterator[None]:
    """No host of the lab is there before and after; skips where the machine uses its addresses otherwise."""
    try:
        network.refuse_overlap(lab)
    except QwenhostError as taken:
        pytest.skip(str(taken))
    lifecycle.down(lab)
    try:
        yield
    finally:
        lifecycle.down(lab)


def run(*argv: str) -> Command:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_SECONDS, cwd=CHECKOUT, check=False)
    return Command(done.returncode, done.stdout, done.stderr)


def on(lab: Lab, host: str, command: str) -> str:
    """What a command that root runs on a host prints; it has to succeed."""
    done = run(*ssh_command(lab.named(host), "root"), command)
    assert done.code == 0, done.messages
    return done.output.strip()


def inventory_of(lab: Lab, folder: Path) -> Path:
    """The lab's inventory as it is shipped, with the keys and addresses of another lab."""
    shipped, text = Lab(), (CHECKOUT / "inventories/lab.yml").read_text()
    for number in (1, 2):
        text = text.replace(shipped.address(number), lab.address(number))
    path = folder / "lab.yml"
    path.write_text(text.replace(str(shipped.folder), str(lab.folder)))
    return path


def bare_inventory(lab: Lab, folder: Path, **variables: Any) -> Path:
    """An inventory of a lab's first host, which serves nothing, with variables of its own."""
    host = {"ansible_host": lab.address(1), **variables}
    common = f"-o UserKnownHostsFile={lab.folder}/known_hosts -o StrictHostKeyChecking=yes"
    shared = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": f"{lab.folder}/id_ed25519",
        "ansible_ssh_common_args": common,
        "ansible_python_interpreter": "/usr/bin/python3",
        "qwenhost_sku": "a100-sxm4-80gb",
    }
    path = folder / "hosts.yml"
    path.write_text(json.dumps({"gpu_hosts": {"vars": shared, "hosts": {"lab1": host}}}))
    return path


def changes(done: Command) -> dict[str, list[str]]:
    """Host -> roles that changed something there."""
    return {host["host"]: [change["role"] for change in host["changes"]] for host in done.report["hosts"]}


def alarms(findings: list[dict[str, Any]]) -> dict[str, str]:
    """Check -> subjects of its warnings and failures, causes only."""
    loud = [f for f in findings if f["verdict"] in ("fail", "warn") and not f["cause"]]
    return {
        check: ", ".join(f["subject"] for f in loud if f["check"] == check) for check in {f["check"] for f in loud}
    }
