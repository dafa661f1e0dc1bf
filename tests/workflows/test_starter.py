"""The starter inventory is valid, and is never written over anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.records.errors import QwenhostError
from qwenhost.workflows.inventory import load_hosts
from qwenhost.workflows.starter import write_starter


def test_starter_declares_two_hosts(tmp_path: Path) -> None:
    write_starter(tmp_path / "new")
    declared = {
        host.name: read_declared(host.variables, host=host.name, where=host.origin)
        for host in load_hosts(tmp_path / "new")
    }
    assert {one.sku.name for one in declared.values()} == {"a100-sxm4-80gb"}
    assert [instance.port for instance in declared["gpu-a2"].serving.instances] == [8001, 8002]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("mine")
    with pytest.raises(QwenhostError, match=r"hosts\.yml: exists already"):
        write_starter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yml"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QwenhostError, match="file"):
        write_starter(tmp_path / "file" / "below")
