"""A simulated host in a plain folder: the library and the programs are pointed at it by A100SIM_ROOT."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qwenhost.lab.simulator import build, install

if shutil.which("gcc") is None:
    collect_ignore_glob = ["*"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def cache(native_cache: Path) -> Iterator[Path]:
    patch = pytest.MonkeyPatch()
    patch.setattr(build, "CACHE", native_cache)
    yield native_cache
    patch.undo()


@pytest.fixture
def make_host(cache: Path, tmp_path: Path) -> Callable[[str, int], Path]:
    def make(sku: str, gpus: int) -> Path:
        root = tmp_path / f"{sku}-{gpus}"
        install(root, sku, gpus)
        return root

    return make


@pytest.fixture(scope="session")
def healthy(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One host for all tests that leave it as it was."""
    root = tmp_path_factory.mktemp("healthy")
    install(root, "a100-sxm4-80gb", 8)
    return root


@pytest.fixture
def host(make_host: Callable[[str, int], Path]) -> Path:
    return make_host("a100-sxm4-80gb", 8)


def environment(root: Path) -> dict[str, str]:
    libraries = str(root / "usr/lib/x86_64-linux-gnu")
    return {"PATH": os.environ["PATH"], "A100SIM_ROOT": str(root), "LD_LIBRARY_PATH": libraries, "LC_ALL": "C"}


@pytest.fixture
def run() -> Run:
    def call(root: Path, program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [str(root / "usr/bin" / program), *arguments]
        return subprocess.run(
            command, env=environment(root), capture_output=True, text=True, check=False, **options
        )

    return call


@pytest.fixture
def nvml() -> Callable[[Path, str], str]:
    """Run lines against real pynvml: `p` is the module, `h` the handle of GPU 0; return what they print."""

    def call(root: Path, lines: str) -> str:
        code = f"import ctypes, pynvml as p\np.nvmlInit()\nh = p.nvmlDeviceGetHandleByIndex(0)\n{lines}"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment(root), capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]

    return call
