"""This host: the probe in a process of its own, so that what hangs there does not hold this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from qwenhost.records.bundle import Bundle
from qwenhost.records.errors import HostUnreachable
from qwenhost.records.source import Source
from qwenhost.transports.request import PROBE_SECONDS, longest_trials, make_request, read_answer

PACKAGE_PARENT = Path(__file__).resolve().parents[2]


def fetch(sources: Iterable[Source], host: str = "") -> Bundle:
    """Read `sources` here. Raises HostUnreachable when the probe does not end or cannot run."""
    return _bundle("probe", sources, host, PROBE_SECONDS + 3)


def try_out(trials: Sequence[Source], host: str = "") -> Bundle:
    """Run trials here. Raises HostUnreachable when they do not end or cannot run."""
    return _bundle("trials", trials, host, longest_trials(trials))


def run(host: str, command: str, payload: bytes, seconds: float) -> tuple[int, bytes, bytes]:
    """Run a shell command here with `payload` on its standard input; return exit code, output and messages."""
    try:
        ran = subprocess.run(
            ["sh", "-c", command], input=payload, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise HostUnreachable(f"{host}: no answer within {seconds:g} s of the command's start") from error
    return ran.returncode, ran.stdout, ran.stderr


def _bundle(package: str, sources: Iterable[Source], host: str, seconds: float) -> Bundle:
    host = host or os.uname().nodename
    try:
        ran = subprocess.run(
            [sys.executable, "-m", f"qwenhost.{package}"],
            input=make_request(host, sources),
            capture_output=True,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_search_path())},
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise HostUnreachable(f"{host}: the {package} did not end within {error.timeout:g} s") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HostUnreachable(f"{host}: the {package} failed: {(reason or ['no message'])[-1]}") from error
    return read_answer(host, ran.stdout)


def _search_path() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [str(PACKAGE_PARENT), *([given] if given else [])]
