"""The folder of ansible-runner: no environment in it, gone with its run, also with one that was killed."""

from __future__ import annotations

import os
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
