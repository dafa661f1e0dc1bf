"""Writes an inventory to start from: the example, which a test keeps valid."""

from __future__ import annotations

import shutil
from pathlib import Path

from qwenhost.records.errors import USAGE, QwenhostError
from qwenhost.workflows.content import content_dir

EXAMPLE = Path("inventories/example")


def write_starter(folder: Path) -> tuple[Path, ...]:
    """Copy the example into a folder and return its files. Raises QwenhostError before anything is overwritten."""
    example = content_dir() / EXAMPLE
    wanted = {folder / path.relative_to(example): path for path in sorted(example.rglob("*.yml"))}
    present = [str(path) for path in wanted if path.exists()]
    if present:
        raise QwenhostError(f"{present[0]}: exists already", hint="name another folder", exit_code=USAGE)
    try:
        for path, source in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
    except OSError as error:
        raise QwenhostError(f"{error.filename}: {error.strerror}") from error
    return tuple(wanted)
