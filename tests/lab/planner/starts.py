"""Starts of the real vLLM, its CPU build, with the tiny model and a plan's arguments, on the loopback."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from qwenhost.expectations.vllm_options import BASE_ENVIRONMENT
from qwenhost.lab import tiny_model
from qwenhost.lab.wheelhouse import CACHE

LIMIT_SECONDS = 600
"""A start takes 20 s of an idle core, and many times that on a machine that does other things, too."""

AT_ONCE = 2
CAPACITY = re.compile(
    r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x"
)


@dataclass(frozen=True)
class Started:
    """How a start ended: the labels of cache_config_info where it served, and what it logged."""

    served: bool
    info: Mapping[str, str]
    log: str

    @property
    def logged(self) -> tuple[int, float]:
        """KV tokens and concurrency of the log."""
        found = CAPACITY.search(self.log)
        assert found, self.log[-2000:]
        return int(found[1].replace(",", "")), float(found[3])


def start_all(runs: Mapping[str, Sequence[str]], folder: Path) -> dict[str, Started]:
    """Start vLLM with the arguments of each run, look, and stop it again; a few at the same time."""
    program, model = tiny_model.environment(CACHE).parent / "vllm", tiny_model.build(CACHE)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        ended = threads.map(lambda name: _start(program, model, runs[name], folder / name), runs)
        return dict(zip(runs, ended, strict=True))


def _start(program: Path, model: Path, arguments: Sequence[str], folder: Path) -> Started:
    folder.mkdir()
    port, log = _free_port(), folder / "log"
    argv = [str(program), "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*argv, *arguments], env=_environment(folder), cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            page = _wait(process, f"http://127.0.0.1:{port}/metrics")
        finally:
            process.terminate()
            process.wait(60)
    line = next((line for line in page.splitlines() if line.startswith("vllm:cache_config_info")), "")
    return Started(bool(page), dict(re.findall(r'(\w+)="([^"]*)"', line)), log.read_text(errors="replace"))


def _wait(process: subprocess.Popen[bytes], url: str) -> str:
    """Return the metrics as soon as there are any, nothing when the process ended."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.5)
    return ""


def _environment(folder: Path) -> dict[str, str]:
    """One process and one thread: two servers share two cores."""
    own = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": "1", "VLLM_HOST_IP": "127.0.0.1"}
    path = f"{CACHE / 'venv' / 'bin'}:{os.environ['PATH']}"
    return {**BASE_ENVIRONMENT, **own, "HOME": str(folder), "PATH": path}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
