"""Our files on a host, each whole or not at all, as the controller gives them."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
from typing import Any, Mapping

from qwenhost.hands import kernel, owned
from qwenhost.hands.answer import BadRequest, Refused, outcome, why

MODE, FOLDER_MODE = 0o644, 0o755


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Have {"files": {path: text}} on the host; the file of an empty text goes. Raises Refused."""
    wanted = {str(path).lstrip("/"): str(text) for path, text in request["files"].items()}
    foreign = [path for path in wanted if not any(fnmatch.fnmatch(path, ours) for ours in owned.PATHS)]
    if foreign:
        raise BadRequest("no rollback would restore {}".format(", ".join(foreign)))
    before = {path: _found(path) for path in wanted}
    after = {path: (text, MODE) if text else None for path, text in wanted.items()}
    for path in [path for path in wanted if before[path] != after[path] and not check]:
        _bring(path, wanted[path] or None)
    return outcome(_lines(before), _lines(after))


def read(path: str) -> str | None:
    """Return the text of a file below the root, None where there is none."""
    found = contents(path)
    return None if found is None else found.decode("utf-8", "replace")


def contents(path: str) -> bytes | None:
    """Return what a file below the root holds, None where there is none."""
    try:
        with open(kernel.path_of(path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def put(path: str, content: str | bytes | None, mode: int = MODE) -> None:
    """Write a file beside its place and move it there; None removes it."""
    real = kernel.path_of(path)
    if content is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(real)
        return
    _make_folder(os.path.dirname(real))
    beside = real + ".qwenhost-new"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(beside, mode)
        os.replace(beside, real)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def mode_of(path: str) -> int | None:
    """Return a file's permissions, None where it is no file of its own."""
    try:
        told = os.lstat(kernel.path_of(path))
    except FileNotFoundError:
        return None
    return stat.S_IMODE(told.st_mode) if stat.S_ISREG(told.st_mode) else None


def _found(path: str) -> tuple[str, int | None] | None:
    text = read(path)
    return None if text is None else (text, mode_of(path))


def _bring(path: str, text: str | None) -> None:
    try:
        put(path, text)
    except OSError as error:
        raise Refused("/{}: {}".format(path, why(error))) from error


def _make_folder(folder: str) -> None:
    """Make a folder that all may read, whatever the umask."""
    if not os.path.isdir(folder):
        os.makedirs(folder)
        os.chmod(folder, FOLDER_MODE)


def _lines(files: Mapping[str, tuple[str, int | None] | None]) -> list[str]:
    """Return each line with its file, so that a difference says where it is."""
    lines = []
    for path, entry in files.items():
        if entry:
            text, mode = entry
            lines += ["/{}: mode {:04o}".format(path, mode or 0)]
            lines += ["/{}: {}".format(path, line) for line in text.splitlines()]
    return lines
