"""The program that runs trials: it finds a Python with PyTorch, holds the limit, and says what went wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qwenhost.facts.trials import TRIALS
from qwenhost.packing import trials_zipapp
from qwenhost.records.bundle import from_json
from qwenhost.transports.request import make_request
from qwenhost.trials.main import answer

NO_GPU = "__version__ = '9.9'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n"
HANGS = "import threading\nthreading.Event().wait()\n"


def python_with(folder: Path, torch: str) -> str:
    """Return a Python whose module torch is this text."""
    (folder / "torch.py").write_text(torch)
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def asked(*pythons: str, seconds: float = 20.0) -> list[dict[str, Any]]:
    sources = [{"name": "trial-host-copy", "argv": ["host-copy"], "timeout_seconds": seconds}]
    captures = answer({"schema": 1, "host": "h", "pythons": list(pythons), "sources": sources})["captures"]
    assert isinstance(captures, list)
    return captures


def test_without_pytorch(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "*" / "python3")
    assert [(row["status"], row["error"]) for row in asked(nowhere)] == [
        ("missing", f"no Python with PyTorch among {nowhere}")
    ]


def test_pytorch_without_a_gpu(tmp_path: Path) -> None:
    (row,) = asked(str(tmp_path / "none"), python_with(tmp_path, NO_GPU))
    assert (row["status"], row["text"]) == ("failed", "")
    assert row["error"].endswith("PyTorch 9.9 finds no usable GPU")


def test_a_trial_that_hangs_is_ended(tmp_path: Path) -> None:
    (row,) = asked(python_with(tmp_path, HANGS), seconds=0.3)
    assert (row["status"], row["error"]) == ("timeout", "no end within 0.3 s")


def test_the_archive_answers_the_request_of_the_transports(tmp_path: Path) -> None:
    archive = tmp_path / "trials.pyz"
    archive.write_bytes(trials_zipapp())
    run = subprocess.run(
        [sys.executable, archive],
        input=make_request("lab1", TRIALS).replace(b"python3", b"python-of-nobody"),
        capture_output=True,
        check=True,
    )
    bundle = from_json(run.stdout.decode(), "lab1")
    assert [item.source for item in bundle.captures] == [trial.name for trial in TRIALS]
    assert {item.status for item in bundle.captures} == {"missing"}


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2}', '{"schema": 1, "host": "h"}'])
def test_not_a_request(tmp_path: Path, text: str) -> None:
    archive = tmp_path / "trials.pyz"
    archive.write_bytes(trials_zipapp())
    run = subprocess.run([sys.executable, archive], input=text, capture_output=True, text=True)
    assert (run.returncode, run.stderr.splitlines()[0].partition(":")[0]) == (2, "trials")
