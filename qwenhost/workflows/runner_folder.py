"""The folder that ansible-runner works in: private, without the environment, gone with its run."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PREFIX = "qwenhost-run-"
NAME = re.compile(rf"{PREFIX}(\d+)-.+")


@contextmanager
def runner_folder() -> Iterator[Path]:
    """Make a folder for this process, and remove it at the end; those of killed processes go, too."""
    _remove_of_the_dead(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_of_the_dead(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        name = NAME.fullmatch(folder.name)
        with suppress(OSError):
            if name and folder.stat().st_uid == os.getuid() and not Path(f"/proc/{name[1]}").exists():
                shutil.rmtree(folder, ignore_errors=True)


TIED = """#!/bin/sh
exec '{python}' -I -c 'import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({parent_death}, signal.SIGTERM)
os.getppid() == {parent} or sys.exit(1)
os.execv(sys.argv[1], sys.argv[1:])' '{program}' "$@"
"""

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent ends; it outlives execve."""


def tied_to_this_process(program: str, path: str, folder: Path) -> Path:
    """Put a program of this name into a folder, which is returned to be the first in PATH.

    It runs the one that `path` has, which ends when this process does, also when it is killed. Otherwise Ansible
    lives on without a terminal, waits for ever for a task that was lost, and holds its hosts.
    """
    tied = folder / "bin"
    tied.mkdir()
    found = shutil.which(program, path=path)
    if found and platform.system() == "Linux":
        parts = {"python": sys.executable, "parent": os.getpid(), "parent_death": PR_SET_PDEATHSIG}
        tied.joinpath(program).write_text(TIED.format(program=found, **parts), encoding="utf-8")
        tied.joinpath(program).chmod(0o700)
    return tied


def forget_environment(status: Mapping[str, Any], runner_config: Any) -> None:
    """Remove what ansible-runner writes before a run begins: its command with the whole environment."""
    if status.get("status") == "running":
        Path(runner_config.artifact_dir, "command").unlink(missing_ok=True)
