from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from qwenhost.lab.simulator import faults
from qwenhost.lab.simulator.guest import power_on, state
from qwenhost.lab.simulator.pci_tree import device_folder
from qwenhost.records.errors import QwenhostError

Run = Callable[..., "subprocess.CompletedProcess[str]"]
DATA = Path(faults.__file__).parents[2] / "data/mig"


def contents(root: Path) -> dict[str, str]:
    found = {}
    for path in sorted(state.folder(root).rglob("*")):
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.name == "state":
            found |= state.read(root)
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.mark.parametrize("kind", faults.KINDS)
def test_fault_shows_and_clear_restores(healthy: Path, kind: str) -> None:
    before = contents(healthy)
    faults.inject(healthy, kind)
    after = contents(healthy)
    faults.inject(healthy, kind)
    assert contents(healthy) == after != before
    assert faults.active(healthy) == [kind]
    faults.clear(healthy)
    assert contents(healthy) == before
    assert faults.active(healthy) == []


def test_faults_of_one_gpu_are_undone_in_turn(healthy: Path) -> None:
    before = contents(healthy)
    for kind in faults.KINDS:
        if kind != "gpu-lost":
            faults.inject(healthy, kind)
    with pytest.raises(QwenhostError, match="GPU 6 of this host is missing"):
        faults.inject(healthy, "gpu-lost")
    faults.clear(healthy)
    assert contents(healthy) == before


def test_faults_that_a_host_cannot_have(make_host: Callable[[str, int], Path]) -> None:
    root = make_host("a100-80gb-pcie", 1)
    before = contents(root)
    for kind in ("fabricmanager-stopped", "nvlink-down", "no-such"):
        with pytest.raises(QwenhostError):
            faults.inject(root, kind)
    assert contents(root) == before


def test_gpu_leaves_bus_and_driver(host: Path, run: Run) -> None:
    faults.inject(host, "gpu-missing")
    assert not (state.folder(host) / "pci/0000:c8:00.0").is_symlink()
    assert run(host, "nvidia-smi", "-L").stdout.count("GPU ") == 7


def test_lost_gpu(host: Path, run: Run) -> None:
    faults.inject(host, "gpu-lost")
    told = run(host, "nvidia-smi")
    assert (told.returncode, "GPU is lost" in told.stdout) == (15, True)
    assert "Xid (PCI:0000:c8:00): 79," in run(host, "dmesg").stdout
    assert set((device_folder(host, "0000:c8:00.0") / "config").read_bytes()) == {0xFF}


def test_fabric_manager_refuses_another_version(host: Path, run: Run) -> None:
    faults.inject(host, "fabricmanager-version")
    told = run(host, "nv-fabricmanager")
    assert told.returncode == 1
    assert "version 580.65.06 don't match with driver version 580.95.05" in told.stdout


def test_upstream_port_is_one_folder_up(host: Path) -> None:
    folder = device_folder(host, "0000:4c:00.0")
    assert (folder.parent / "class").read_text() == "0x060400\n"
    faults.inject(host, "link-x8")
    link = int.from_bytes((folder / "config").read_bytes()[0x8A:0x8C], "little")
    assert ((link >> 4) & 0x3F, link & 0xF) == (8, 4)
    assert (folder / "max_link_width").read_text() == (folder.parent / "max_link_width").read_text() == "16\n"
    assert (
        (folder / "current_link_width").read_text() == (folder.parent / "current_link_width").read_text() == "8\n"
    )


def test_links_hold_in_both_places(healthy: Path) -> None:
    target = (state.folder(healthy) / "pci/0000:07:00.0").readlink()
    assert os.path.normpath(Path("/sys/bus/pci/devices") / target).startswith("/var/lib/a100sim/pci-root/")


def test_cold_start() -> None:
    values = {
        "gpu.count": "2", "gpu0.mig_mode": "0", "gpu0.mig_pending": "1", "gpu1.mig_mode": "1",
        "gpu1.mig_pending": "1",
        "gpu1.gi1": "9:0:4", "gpu1.gi1.ci0": "2:0:3", "gpu1.gi1.ci0.uuid": "MIG-1", "gpu1.persistence": "1",
        "gpu1.ecc_volatile_dram_correctable": "3", "gpu1.ecc_aggregate_dram_correctable": "3",
    }  # fmt: skip
    power_on.cold_start(values)
    assert values["gpu0.mig_mode"] == values["gpu1.mig_mode"] == "1"
    assert not [key for key in values if ".gi" in key or "volatile" in key]
    assert (values["gpu1.persistence"], values["gpu1.ecc_aggregate_dram_correctable"]) == ("0", "3")


def test_kernel_command_line_comes_from_grub(tmp_path: Path) -> None:
    grub = tmp_path / "grub.cfg"
    assert power_on.kernel_command_line(grub) == power_on.CMDLINE
    grub.write_text("menuentry 'x' {\n\tlinux\t/boot/vmlinuz-6 root=/dev/sda1 ro iommu=off\n}\n")
    assert power_on.kernel_command_line(grub) == "BOOT_IMAGE=/boot/vmlinuz-6 root=/dev/sda1 ro iommu=off"


def test_programs_are_executable_and_hosts_differ(make_host: Callable[[str, int], Path]) -> None:
    first, second = make_host("a100-sxm4-80gb", 8), make_host("a100-sxm4-40gb", 8)
    assert (first / "usr/bin/nvidia-smi").stat().st_mode & stat.S_IXOTH
    assert state.read(first)["gpu0.uuid"] != state.read(second)["gpu0.uuid"]


def test_log_options(healthy: Path, run: Run) -> None:
    assert run(healthy, "dmesg").stdout.startswith("[    0.000000] Linux version")
    assert run(healthy, "dmesg", "-T").stdout.startswith("[")
    assert run(healthy, "dmesg", "-x").stdout.startswith("kern  :info  : [")
    assert (
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05" in run(healthy, "dmesg", "-k").stdout
    )


@pytest.mark.parametrize("table", sorted(DATA.glob("a100-*.yaml")), ids=lambda path: path.stem)
def test_profile_tables(table: Path) -> None:
    rows = yaml.safe_load(table.read_text())["profiles"]
    assert [row["id"] for row in rows] == [19, 20, 15, 14, 9, 5, 0]
    for row in rows:
        assert row["source"]
        assert max(row["placements"]) + row["memory_slices"] <= 8
        assert row["multiprocessors"] == 14 * row["compute_slices"]
