from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from qwenhost.lab.simulator import faults
from qwenhost.lab.simulator.guest import state

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_table_has_one_width(host: Path, run: Run) -> None:
    run(host, "nvidia-smi", "-i", "0", "-mig", "1")
    run(host, "nvidia-smi", "mig", "-i", "0", "-cgi", "9,9", "-C")
    lines = run(host, "nvidia-smi").stdout.splitlines()
    assert {len(line) for line in lines if line.startswith(("|", "+"))} == {91}
    assert sum("MiB / 40192MiB" in line for line in lines) == 2
    assert re.search(r"NVIDIA-SMI 580\.95\.05 +Driver Version: 580\.95\.05 +CUDA Version: 13\.0 ", lines[2])


def test_text_and_xml_agree(healthy: Path, run: Run) -> None:
    text = run(healthy, "nvidia-smi", "-q").stdout
    assert len(re.findall(r"^GPU 00000000:", text, re.MULTILINE)) == 8
    gpus = ElementTree.fromstring(run(healthy, "nvidia-smi", "-q", "-x").stdout).findall("gpu")
    serials = re.findall(r"Serial Number +: (\d+)", text)
    assert [gpu.findtext("serial") for gpu in gpus] == serials
    assert gpus[0].findtext("pci/pci_gpu_link_info/link_widths/current_link_width") == "16x"
    assert gpus[0].findtext("remapped_rows/row_remapper_histogram/row_remapper_histogram_max") == "640 bank(s)"


def test_sections_can_be_chosen(healthy: Path, run: Run) -> None:
    text = run(healthy, "nvidia-smi", "-q", "-d", "TEMPERATURE", "-i", "3").stdout
    assert "Memory Current Temp" in text
    assert "Power" not in text


def test_topology_matrix(healthy: Path, run: Run) -> None:
    rows = run(healthy, "nvidia-smi", "topo", "-m").stdout.splitlines()
    assert rows[0].startswith("\t\x1b[4mGPU0\tGPU1")
    assert rows[1].split("\t")[1:9] == [" X ", *["NV12"] * 7]
    assert rows[8].split("\t")[10:] == ["1", "", "N/A"]


@pytest.mark.parametrize(
    ("sku", "gpus", "cells"),
    [
        ("a100-sxm4-40gb", 4, [" X ", "NV4", "NV4", "NV4"]),
        ("a100-pcie-40gb", 4, [" X ", "NV12", "SYS", "SYS"]),
        ("a100-80gb-pcie", 1, [" X "]),
    ],
)
def test_other_boards(
    make_host: Callable[[str, int], Path], run: Run, sku: str, gpus: int, cells: list[str]
) -> None:
    rows = run(make_host(sku, gpus), "nvidia-smi", "topo", "-m").stdout.splitlines()
    assert rows[1].split("\t")[1 : gpus + 1] == cells


def test_nvlink_forms(host: Path, run: Run) -> None:
    faults.inject(host, "nvlink-down")
    assert run(host, "nvidia-smi", "nvlink", "-s", "-i", "0").stdout.count(": 25 GB/s\n") == 12
    assert "\t Link 5: <inactive>\n" in run(host, "nvidia-smi", "nvlink", "-s", "-i", "2").stdout
    run(host, "nvidia-smi", "-i", "0", "-mig", "1")
    told = run(host, "nvidia-smi", "nvlink", "-s", "-i", "0").stdout
    assert told.endswith("Nvlink queries are not supported for Devices in MIG mode\n")


def test_query(healthy: Path, run: Run) -> None:
    asked = "--query-gpu=index,name,memory.total,pcie.link.width.current,mig.mode.current"
    told = run(healthy, "nvidia-smi", asked, "--format=csv", "-i", "0,7").stdout.splitlines()
    assert told[0] == "index, name, memory.total [MiB], pcie.link.width.current, mig.mode.current"
    assert told[2] == "7, NVIDIA A100-SXM4-80GB, 81920 MiB, 16, Disabled"
    assert run(healthy, "nvidia-smi", "--query-gpu=no.such").returncode == 2


def test_mig_life(host: Path, run: Run) -> None:
    def mig(*arguments: str) -> tuple[int, str]:
        done = run(host, "nvidia-smi", "mig", *arguments)
        return done.returncode, done.stdout

    assert mig("-lgip") == (6, "No MIG-enabled devices found.\n")
    assert run(host, "nvidia-smi", "-i", "0", "-mig", "1").stdout.startswith(
        "Enabled MIG Mode for GPU 00000000:07:"
    )
    assert mig("-lgi") == (6, "No GPU instances found: Not Found\n")
    assert "profile MIG 3g.40gb (ID  9)" in mig("-cgi", "3g.40gb,9", "-C")[1]
    code, text = mig("-cgi", "19")
    assert (code, text.splitlines()[-1]) == (23, "Failed to create GPU instances: Insufficient Resources")
    assert mig("-dgi")[0] == 19
    assert run(host, "nvidia-smi", "-i", "0", "-mig", "0").returncode == 19
    assert [mig("-dci")[0], mig("-dgi")[0]] == [0, 0]
    assert run(host, "nvidia-smi", "-i", "0", "-mig", "0").returncode == 0


def test_partial_compute_instances(host: Path, run: Run) -> None:
    run(host, "nvidia-smi", "-i", "0", "-mig", "1")
    run(host, "nvidia-smi", "mig", "-cgi", "9")
    assert "1c.3g.40gb (ID  0)" in run(host, "nvidia-smi", "mig", "-cci", "0,0", "-gi", "2").stdout
    assert run(host, "nvidia-smi", "-L").stdout.count("MIG 1c.3g.40gb") == 2


def test_reset_applies_the_pending_mode(host: Path, run: Run) -> None:
    faults.inject(host, "gpu-held")
    assert "pending enable state" in run(host, "nvidia-smi", "-i", "0", "-mig", "1").stdout
    assert run(host, "nvidia-smi", "-i", "0", "-r").returncode == 19
    faults.clear(host)
    assert "was successfully reset" in run(host, "nvidia-smi", "-i", "0", "-r").stdout
    assert state.read(host)["gpu0.mig_mode"] == "1"


def test_exit_codes(host: Path, run: Run) -> None:
    assert run(host, "nvidia-smi", "-i", "9").returncode == 6
    faults.inject(host, "driver-mismatch")
    told = run(host, "nvidia-smi")
    assert (told.returncode, told.stdout.splitlines()[1]) == (18, "NVML library version: 580.105")
    faults.clear(host)
    with state.change(host) as values:
        values["driver.loaded"] = "0"
    assert run(host, "nvidia-smi", "-L").returncode == 9
    (host / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").unlink()
    assert run(host, "nvidia-smi").returncode == 12


def test_hang_blocks_until_it_is_cleared(host: Path, run: Run) -> None:
    faults.inject(host, "driver-hang")
    with pytest.raises(subprocess.TimeoutExpired):
        run(host, "nvidia-smi", "-L", timeout=1.5)
    faults.clear(host)
    assert run(host, "nvidia-smi", "-L").returncode == 0


def test_it_says_what_it_is(healthy: Path, run: Run) -> None:
    for program, option in (("nvidia-smi", "--help"), ("dmesg", "--help"), ("nv-fabricmanager", "--help")):
        assert "simulator" in run(healthy, program, option).stdout
