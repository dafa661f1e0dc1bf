"""Zipapps: the same bytes each time, complete, and run by a Python that has nothing of qwenhost."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from qwenhost import packing
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
