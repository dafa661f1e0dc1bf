"""Who holds a host, and whether that process still lives."""

from __future__ import annotations

import os
import subprocess
import sys

from qwenhost.workflows.controller import controller, dead, run_name


def test_a_living_process_is_not_dead_and_its_run_keeps_its_name() -> None:
    assert not dead(controller(os.getpid()))
    assert run_name(os.getpid()) == run_name(os.getpid())
    assert run_name(os.getpid()).endswith(f"Z-{os.getpid()}")


def test_one_that_ended_is_dead_also_before_anybody_takes_note_of_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = controller(process.pid)
        assert not dead(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
        assert dead(name)
    assert dead(name)


def test_others_are_never_known_to_be_dead() -> None:
    assert not dead("somebody@elsewhere process 1 of 2")
    assert not dead("no controller")
