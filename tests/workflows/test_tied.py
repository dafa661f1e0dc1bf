"""A program that ends with the process that runs it, whatever ends that."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qwenhost.workflows.tied import Tied, own_signal_handlers

ENDLESS = """#!/bin/sh
echo $$
exec sleep 60
"""
TIES = """
import subprocess, sys
from pathlib import Path
from qwenhost.workflows.tied import Tied
subprocess.run([Tied("endless", sys.argv[1], Path(sys.argv[1])).folder / "endless"])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    tmp_path.joinpath("endless").write_text(ENDLESS)
    tmp_path.joinpath("endless").chmod(0o755)
    return tmp_path


def ended(process: int) -> bool:
    """Whether a process ends within ten seconds."""
    return bool(select.select([process], [], [], 10)[0])


def test_it_ends_with_a_process_that_is_killed(place: Path) -> None:
    command = [sys.executable, "-c", TIES, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        tied = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        assert ended(tied)
        os.close(tied)


@pytest.fixture
def running(place: Path) -> Iterator[tuple[Tied, subprocess.Popen[str]]]:
    tied = Tied("endless", str(place), place)
    with subprocess.Popen([tied.folder / "endless"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        yield tied, process
        process.kill()


def test_it_is_asked_to_end_before_it_is_killed(
    running: tuple[Tied, subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tied, process = running
    assert not tied.canceled_by(lambda: False)() and not tied.interrupted
    canceled = tied.canceled_by(lambda: True)
    assert not canceled() and tied.interrupted
    assert process.wait(timeout=10) < 0
    monkeypatch.setattr("qwenhost.workflows.tied.GRACE_SECONDS", 0.0)
    assert canceled()


def test_ctrl_c_counts_again_after_a_run() -> None:
    before = signal.getsignal(signal.SIGINT)
    with own_signal_handlers():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before
