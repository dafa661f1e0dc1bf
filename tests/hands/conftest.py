"""The hands as they are used: an archive, a request in, an answer out, on a tree or a simulated board."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qwenhost.lab.simulator import build, install
from qwenhost.packing import hands_zipapp


class Ran(NamedTuple):
    """Exit status and answer of one act."""

    status: int
    answer: dict[str, Any]


Hands = Callable[..., Ran]


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hands") / "hands.pyz"
    path.write_bytes(hands_zipapp())
    return path


def run_hands(archive: Path, environment: dict[str, str], act: str, request: Any, *arguments: str) -> Ran:
    text = request if isinstance(request, str) else json.dumps(request)
    command = [sys.executable, "-I", "-S", str(archive), act, *arguments]
    environment = {**os.environ, **environment}
    ran = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)
    assert ran.stdout, ran.stderr
    return Ran(ran.returncode, json.loads(ran.stdout))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree in the place of /proc and /sys."""
    files = {
        "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "proc/sys/net/ipv4/conf/eth0.7/rp_filter": "2\n",
        "proc/sys/vm/swappiness": "60\n",
        "proc/sys/vm/compact_memory": "0\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
        "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
        "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages": "64\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def hands(archive: Path, root: Path) -> Hands:
    def run(act: str, request: Any, *arguments: str) -> Ran:
        return run_hands(archive, {"QWENHOST_ROOT": str(root)}, act, request, *arguments)

    return run


@pytest.fixture(scope="session")
def nvml_cache(native_cache: Path) -> Path:
    if not (shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("the simulated NVML needs a C compiler")
    return native_cache


@pytest.fixture
def board(nvml_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A simulated host of two A100 boards; its root."""
    monkeypatch.setattr(build, "CACHE", nvml_cache)
    install(tmp_path, "a100-sxm4-80gb", 2)
    return tmp_path


@pytest.fixture
def on_board(archive: Path, board: Path) -> Hands:
    library = next(board.rglob("libnvidia-ml.so.1")).parent
    environment = {"A100SIM_ROOT": str(board), "LD_LIBRARY_PATH": str(library)}

    def run(act: str, request: Any, *arguments: str) -> Ran:
        return run_hands(archive, environment, act, request, *arguments)

    return run
