"""Run trials one after the other, each within its limit: request on standard input, bundle on standard output."""

from __future__ import annotations

import glob
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

SCHEMA = 1
SEARCH_SECONDS = 20.0
"""Time that a Python has to say whether it finds PyTorch."""

ENVIRONMENT = {"LC_ALL": "C", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""PyTorch counts GPUs without starting CUDA, which processes that fork later could not use."""

DYING_SECONDS = 1.0
"""Time that a killed process has to go; one that stays is stuck in the kernel, and is left behind."""

HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


def main() -> None:
    """Answer a request. Exit 0: a bundle was written; 2: not a request."""
    try:
        request = json.loads(sys.stdin.read())
        if request["schema"] != SCHEMA:
            raise ValueError("request schema {!r}, this program answers {}".format(request["schema"], SCHEMA))
        bundle = answer(request)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write("trials: not a request: {!r}\n".format(error))
        sys.exit(2)
    sys.stdout.write(json.dumps(bundle))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the bundle for {"host", "pythons": [...], "sources": [{"name", "argv", "timeout_seconds"}]}."""
    python = find_python(request["pythons"])
    return {
        "schema": SCHEMA,
        "host": request["host"],
        "captured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "captures": [_captured(source, python, request["pythons"]) for source in request["sources"]],
        "unrecognised": [],
        "notes": {},
    }


def find_python(patterns: list[str]) -> str | None:
    """Return the first Python that finds PyTorch; a pattern is a glob, or a name to look up in PATH."""
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)) or [shutil.which(pattern) or ""]:
            if path and _has_torch(path):
                return path
    return None


def _has_torch(python: str) -> bool:
    try:
        asked = subprocess.run([python, "-c", HAS_TORCH], stdin=subprocess.DEVNULL, timeout=SEARCH_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def _captured(source: dict[str, Any], python: str | None, patterns: list[Any]) -> dict[str, Any]:
    """Return one trial's capture in its JSON form."""
    started = time.monotonic()
    if python is None:
        status, text, error = "missing", "", "no Python with PyTorch among " + ", ".join(patterns)
    else:
        status, text, error = _run(python, source["argv"][0], float(source["timeout_seconds"]))
    seconds = round(time.monotonic() - started, 3)
    return {"source": source["name"], "status": status, "text": text, "error": error, "seconds": seconds}


def _run(python: str, trial: str, limit_seconds: float) -> tuple[str, str, str]:
    """Return status, text and error of one trial; all its processes end with it."""
    program = (pkgutil.get_data("qwenhost.trials", "on_gpu.py") or b"").decode("utf-8")
    process = subprocess.Popen(
        [python, "-c", program, trial],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        start_new_session=True,
        env={**os.environ, **ENVIRONMENT},
    )
    try:
        text, messages = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        return "timeout", "", "no end within {:g} s".format(limit_seconds)
    finally:
        _end(process)
    if process.returncode == 0:
        return "ok", text, ""
    told = [line for line in messages.splitlines() if line.strip()]
    return "failed", text, "exit code {}: {}".format(process.returncode, (told or ["no message"])[-1][:300])


def _end(process: Any) -> None:
    """Kill what is left of the process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    for pipe in (process.stdout, process.stderr):
        pipe.close()
    try:
        process.wait(DYING_SECONDS)
    except subprocess.TimeoutExpired:
        pass
