"""The probe as it is used: a request in, a bundle out, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

Ask = Callable[..., dict[str, dict[str, Any]]]


def source(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    """Return a source in the request's form."""
    empty = {
        "argv": [],
        "paths": [],
        "url": "",
        "good_exits": [0],
        "timeout_seconds": 10,
        "limit_bytes": 65536,
    }
    return {"name": name, "kind": kind, **empty, **fields}


def run_probe(*sources: dict[str, Any], python: str = sys.executable) -> dict[str, Any]:
    """Run the probe with `python` and return its bundle."""
    request = json.dumps({"schema": 1, "host": "h1", "sources": sources})
    run = subprocess.run(
        [python, "-m", "qwenhost.probe"], input=request, capture_output=True, text=True, cwd=ROOT, check=True
    )
    bundle: dict[str, Any] = json.loads(run.stdout)
    return bundle


@pytest.fixture
def ask() -> Ask:
    """Run sources; return the captures by name."""

    def run(*sources: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {capture["source"]: capture for capture in run_probe(*sources)["captures"]}

    return run
