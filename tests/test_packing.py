"""Zipapps: the same bytes each time, complete, and run by a Python that has nothing of qwenhost."""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qwenhost import packing
from qwenhost.facts.gpus import NVML
from qwenhost.lab.simulator import build, install
from qwenhost.packing import hands_zipapp, probe_zipapp

OLDEST_PYTHON = (3, 8)
BARE = [sys.executable, "-I", "-S"]

ZIPAPPS = pytest.mark.parametrize(
    ("zipapp", "part"), [(probe_zipapp, "probe"), (hands_zipapp, "hands")], ids=["probe", "hands"]
)


@ZIPAPPS
def test_same_bytes_each_time(zipapp: Callable[[], bytes], part: str) -> None:
    assert packing._zipapp(part) == zipapp()


@ZIPAPPS
def test_holds_the_whole_package_and_nothing_else_of_qwenhost(zipapp: Callable[[], bytes], part: str) -> None:
    names = set(zipfile.ZipFile(io.BytesIO(zipapp())).namelist())
    modules = {f"qwenhost/{part}/{path.name}" for path in (packing.PACKAGE / part).glob("*.py")}
    assert names == modules | {"__main__.py", "pynvml.py", "qwenhost/__init__.py"}


@ZIPAPPS
def test_every_module_is_python_3_8(zipapp: Callable[[], bytes], part: str) -> None:
    archive = zipfile.ZipFile(io.BytesIO(zipapp()))
    for name in archive.namelist():
        ast.parse(archive.read(name), name, feature_version=OLDEST_PYTHON)


def test_probe_answers_without_site_packages(tmp_path: Path) -> None:
    path = tmp_path / "probe.pyz"
    path.write_bytes(probe_zipapp())
    request = json.dumps({"schema": 1, "host": "h1", "sources": []})
    ran = subprocess.run([*BARE, path], input=request, capture_output=True, text=True, cwd="/", check=True)
    assert json.loads(ran.stdout)["host"] == "h1"


@pytest.mark.skipif(
    not (shutil.which("gcc") or shutil.which("cc")), reason="the simulated NVML needs a C compiler"
)
def test_the_part_of_pynvml_that_is_packed_reads_the_same_as_the_whole(
    tmp_path: Path, native_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "CACHE", native_cache)
    install(tmp_path, "a100-sxm4-80gb", 2)
    (tmp_path / "probe.pyz").write_bytes(probe_zipapp())
    request = json.dumps({"schema": 1, "host": "h1", "sources": [NVML.request()]})
    libraries = {"A100SIM_ROOT": str(tmp_path), "LD_LIBRARY_PATH": f"{tmp_path}/usr/lib/x86_64-linux-gnu"}

    def reading(*program: str) -> dict[str, Any]:
        ran = subprocess.run(program, input=request, env=libraries, capture_output=True, text=True, check=True)
        read: dict[str, Any] = json.loads(json.loads(ran.stdout)["captures"][0]["text"])
        return read

    packed = reading(*BARE, str(tmp_path / "probe.pyz"))
    assert len(packed["devices"]) == 2
    assert packed == reading(sys.executable, "-m", "qwenhost.probe")


def test_every_error_of_nvml_has_its_name() -> None:
    named = re.compile(rb"^NVML_ERROR_\w+", re.MULTILINE)
    cut = zipfile.ZipFile(io.BytesIO(probe_zipapp())).read("pynvml.py")
    whole = packing._pynvml().read_bytes()
    assert named.findall(cut) == named.findall(whole)
    assert len(cut) < len(whole) / 4


def test_hands_import_every_act_without_site_packages(tmp_path: Path) -> None:
    path = tmp_path / "hands.pyz"
    path.write_bytes(hands_zipapp())
    program = (
        f"import sys, importlib; sys.path.insert(0, {str(path)!r})\n"
        "from qwenhost.hands.main import ACTS\n"
        "for act in ACTS.values():\n"
        "    module, _, name = act.partition(':')\n"
        "    assert callable(getattr(importlib.import_module('qwenhost.hands.' + module), name))\n"
        "assert sys.modules['pynvml'].__file__.startswith(sys.path[0])\n"
    )
    subprocess.run([*BARE, "-c", program], cwd="/", check=True)
