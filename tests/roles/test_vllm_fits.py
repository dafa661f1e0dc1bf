"""Whether a wheel can run on a host is asked of PyTorch, which is played here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.roles.playbook import ROOT

FITS = ROOT / "roles/vllm_service/files/vllm-fits"

TORCH = """
class version: cuda = {cuda!r}
class cuda:
    is_available = staticmethod(lambda: {available})
    get_arch_list = staticmethod(lambda: {built!r}.split())
    device_count = staticmethod(lambda: 1)
    get_device_capability = staticmethod(lambda gpu: {gpu})
"""


def asked(
    folder: Path, cuda: str | None = "13.0", available: bool = True, built: str = "", gpu: str = "(8, 0)"
) -> str:
    (folder / "torch.py").write_text(TORCH.format(cuda=cuda, available=available, built=built, gpu=gpu))
    (folder / "vllm.py").write_text("")
    ran = subprocess.run([sys.executable, "-c", FITS.read_text()], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == (1 if ran.stderr else 0)
    return ran.stderr


@pytest.mark.parametrize(
    ("built", "gpu"),
    [("sm_80 sm_90", "(8, 0)"), ("sm_80", "(8, 6)"), ("sm_75 compute_75", "(8, 0)"), ("sm_90 sm_120", "(12, 0)")],
)
def test_code_that_runs_there(tmp_path: Path, built: str, gpu: str) -> None:
    assert asked(tmp_path, built=built, gpu=gpu) == ""


@pytest.mark.parametrize(
    ("built", "gpu"), [("sm_75 sm_90", "(8, 0)"), ("sm_86", "(8, 0)"), ("sm_90a sm_90", "(10, 0)")]
)
def test_code_that_does_not(tmp_path: Path, built: str, gpu: str) -> None:
    capability = gpu.strip("()").replace(", ", "")
    assert (
        asked(tmp_path, built=built, gpu=gpu)
        == f"qwenhost: GPU 0 is sm_{capability}, the wheel was built for {built}\n"
    )


def test_a_driver_that_is_too_old(tmp_path: Path) -> None:
    assert "PyTorch for CUDA 13.0 finds no GPU" in asked(tmp_path, available=False)


def test_the_cpu_build_needs_no_gpu(tmp_path: Path) -> None:
    assert asked(tmp_path, cuda=None, available=False) == ""
