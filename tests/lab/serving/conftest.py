"""One simulated host that serves, for all tests of this folder: they follow one another, in their files' order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from qwenhost.hands.model_sums import belongs
from qwenhost.lab.layout import MODELS, Lab
from tests.hands.mirror import Mirror
from tests.lab.commands import QWENHOST, Command, empty, inventory_of, on, run

LAB = Lab("serving")
HOST = "lab1"
NAME = "tiny-qwen3.5"
MODEL = f"/var/lib/models/{NAME}"
PORT = 8443
KEY = "rotated-0123456789abcdef"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"))


Edit = Callable[[dict[str, Any]], object]


@dataclass
class Serving:
    """The host and its inventory."""

    inventory: Path
    mirror: Mirror
    """The model on this machine, for the lab to fetch."""
    declared: dict[str, Any]

    def declare(self, edit: Edit) -> None:
        """Change qwenhost_vllm in the inventory."""
        edit(self.declared["gpu_hosts"]["hosts"][HOST]["qwenhost_vllm"])
        self.inventory.write_text(yaml.safe_dump(self.declared, sort_keys=False))

    def declare_proxy(self) -> None:
        """Declare a proxy with a certificate of its own, and another API key."""
        files = {"certificate": "/etc/ssl/proxy.pem", "key": "/etc/ssl/proxy.key"}
        root = LAB.named(HOST).root
        out = ["-out", f"{root}{files['certificate']}", "-keyout", f"{root}{files['key']}"]
        made = run(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=lab1", "-days", "1", *out
        )
        assert made.code == 0, made.messages
        (self.inventory.parent / "api_key").write_text(f"{KEY}\n")
        self.declare(lambda vllm: vllm.update(proxy={"port": PORT, **files}, api_key_file="api_key"))

    def provision(self, *options: str) -> Command:
        return run(QWENHOST, "provision", str(self.inventory), "--yes", "--json", *options)

    def doctor(self) -> list[dict[str, Any]]:
        done = run(QWENHOST, "doctor", HOST, "-i", str(self.inventory), "--json", "--no-state")
        return list(done.report["hosts"][0]["findings"])

    def on(self, command: str) -> str:
        return on(LAB, HOST, command)

    def main_pid(self) -> str:
        return self.on("systemctl show --property=MainPID --value vllm@main")


@pytest.fixture(scope="package")
def lab() -> Iterator[None]:
    with empty(LAB):
        up = run(QWENHOST, "lab", "up", "--name", LAB.name, "--hosts", "1", "--with-model")
        assert up.code == 0, up.messages
        yield


@pytest.fixture(scope="package")
def serving(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    inventory = inventory_of(LAB, tmp_path_factory.mktemp("inventory"))
    declared = yaml.safe_load(inventory.read_text())
    del declared["gpu_hosts"]["hosts"]["lab2"]
    files = {file.name: file.read_bytes() for file in (MODELS / NAME).iterdir() if belongs(file.name)}
    with Mirror(files, LAB.machine_address).serving() as mirror:
        host = Serving(inventory, mirror, declared)
        host.declare(lambda vllm: vllm.update(model={"name": NAME, "path": MODEL, "source": {"url": mirror.url}}))
        yield host
