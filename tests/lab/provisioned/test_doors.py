"""The same host through four doors: its own shell, SSH, Ansible's connection, a captured bundle."""

from __future__ import annotations

import io
import json
import subprocess
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import pynvml

from qwenhost.lab.keys import ssh_command
from tests.lab.commands import CHECKOUT
from tests.lab.provisioned.conftest import LAB, Provisioned

HOST = "lab2"
PYTHON = "/opt/qwenhost/vllm/current/bin/python"
"""Has click, PyYAML and Jinja2, as vLLM needs them, too."""

Verdicts = set[tuple[str, str, str]]

PASSING = ("host.clock-sync",)
"""Synchronised or not from one minute to the next."""


def verdicts(findings: list[dict[str, Any]]) -> Verdicts:
    return {
        (finding["check"], finding["subject"], finding["verdict"])
        for finding in findings
        if finding["check"] not in PASSING
    }


def of_bundle(provisioned: Provisioned, bundle: Path, *declared: str) -> Verdicts:
    done = provisioned.qwenhost("doctor", *declared, "--bundle", str(bundle), "--json", "--no-state")
    assert done.output, done.messages
    return verdicts(done.report["hosts"][0]["findings"])


def over_ansible(provisioned: Provisioned) -> Verdicts:
    ansible = Path(sysconfig.get_path("scripts")) / "ansible"
    command = [ansible, HOST, "-i", provisioned.inventory, "-m", "qwenhost_examine", "-o"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, check=False)
    assert " | SUCCESS => " in done.stdout, done.stdout + done.stderr
    return verdicts(json.loads(done.stdout.split(" => ", 1)[1])["report"]["findings"])


def on_the_host(provisioned: Provisioned) -> Verdicts:
    """Run the doctor in the host's own shell, from a copy of this package."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        packed.add(
            CHECKOUT / "qwenhost", "qwenhost", filter=lambda each: None if "__pycache__" in each.name else each
        )
        packed.add(str(pynvml.__file__), "pynvml.py")
    unpack = [
        *ssh_command(LAB.named(HOST), "root"),
        "rm -rf /tmp/doors && mkdir /tmp/doors && tar xz -C /tmp/doors",
    ]
    subprocess.run(unpack, input=archive.getvalue(), check=True)
    doctor = f"cd /tmp/doors && {PYTHON} -m qwenhost doctor --json --no-state; rm -r /tmp/doors"
    return verdicts(json.loads(provisioned.on(HOST, doctor))["hosts"][0]["findings"])


def test_four_doors_find_the_same(provisioned: Provisioned, tmp_path: Path) -> None:
    bundle, declared = tmp_path / "bundle.json", (HOST, "-i", str(provisioned.inventory))
    captured = provisioned.qwenhost("capture", *declared, "--identities", "-o", str(bundle))
    assert captured.code == 0, captured.messages
    _, live = provisioned.doctor(HOST)
    assert verdicts(live) == of_bundle(provisioned, bundle, *declared)
    assert verdicts(live) == over_ansible(provisioned)
    assert on_the_host(provisioned) == of_bundle(provisioned, bundle)
