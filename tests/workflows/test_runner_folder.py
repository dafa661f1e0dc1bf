"""The folder of ansible-runner: no environment in it, gone with its run, also with one that was killed."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from qwenhost.workflows.runner_folder import PREFIX, forget_environment, runner_folder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_private_and_gone_at_the_end(place: Path) -> None:
    with pytest.raises(KeyError), runner_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        raise KeyError
    assert list(place.iterdir()) == []


def test_folders_of_killed_runs_go_and_others_stay(place: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f"{PREFIX}{ended.pid}-x", f"{PREFIX}{os.getppid()}-x", f"{PREFIX}notes"):
        (place / name).mkdir()
    with runner_folder():
        pass
    assert {path.name for path in place.iterdir()} == {f"{PREFIX}{os.getppid()}-x", f"{PREFIX}notes"}


def test_the_environment_is_removed_before_the_run_begins(place: Path) -> None:
    (place / "command").write_text('{"env": {"HF_TOKEN": "hf_secret"}}')
    config = SimpleNamespace(artifact_dir=str(place))
    forget_environment({"status": "starting"}, runner_config=config)
    assert (place / "command").exists()
    forget_environment({"status": "running"}, runner_config=config)
    assert not (place / "command").exists()


ENDLESS = """#!/bin/sh
echo $$
exec sleep 60
"""
TIES = """
import subprocess, sys
from pathlib import Path
from qwenhost.workflows.runner_folder import tied_to_this_process
folder = tied_to_this_process("endless", sys.argv[1], Path(sys.argv[1]))
subprocess.run([folder / "endless"])
"""


def test_a_program_ends_with_the_process_that_it_is_tied_to(place: Path) -> None:
    place.joinpath("endless").write_text(ENDLESS)
    place.joinpath("endless").chmod(0o755)
    command = [sys.executable, "-c", TIES, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        tied = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        assert select.select([tied], [], [], 10)[0], "it lives on"
        os.close(tied)
