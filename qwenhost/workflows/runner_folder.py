"""The folder that ansible-runner works in: private, without the environment, gone with its run."""

from __future__ import annotations

import os
import re
import shutil
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


def forget_environment(status: Mapping[str, Any], runner_config: Any) -> None:
    """Remove what ansible-runner writes before a run begins: its command with the whole environment."""
    if status.get("status") == "running":
        Path(runner_config.artifact_dir, "command").unlink(missing_ok=True)
