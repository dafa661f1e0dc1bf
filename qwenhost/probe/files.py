"""Read one file, or a set of small files."""

from __future__ import annotations

import errno
import glob
import json
import os
from typing import Any, Iterator

CHUNK_BYTES = 64 * 1024
"""The kernel refuses to answer a read of 4 MiB or more from /proc/sys (proc_sys_call_handler: ENOMEM)."""

DIGITS = 8
"""Enough to tell two secrets apart, too few to tell which of many guesses is one."""


def read_file(source: dict[str, Any]) -> dict[str, Any]:
    """Return {"text", "status", "error", "truncated"}; raises OSError."""
    limit = int(source["limit_bytes"])
    text = _content(source["paths"][0], limit + 1)
    return {"text": text[:limit], "status": "ok", "error": "", "truncated": len(text) > limit}


def read_digest(source: dict[str, Any]) -> dict[str, Any]:
    """Return the first eight hexadecimal digits of a file's SHA256 as the text; raises OSError."""
    content = _content(source["paths"][0], int(source["limit_bytes"]))
    import hashlib  # loads OpenSSL, and few hosts have a secret to tell

    text = hashlib.sha256(content.encode("utf-8")).hexdigest()[:DIGITS]
    return {"text": text, "status": "ok", "error": "", "truncated": False}


def read_tree(source: dict[str, Any]) -> dict[str, Any]:
    """Return the files that the globs name as one JSON object.

    {path: content}; {path + "!": name of the error} for one that cannot be read; {path + "@": real path}
    for a link to a directory, also for one that a path goes through last.
    """
    found: dict[str, str] = {}
    room = int(source["limit_bytes"])
    for path in sorted({path for pattern in source["paths"] for path in glob.glob(pattern)}):
        for key, value in _entries(path, room):
            found[key] = value
            room -= len(value)
        if room <= 0:
            break
    if not found:
        return {"text": "", "status": "missing", "error": "nothing matches " + ", ".join(source["paths"][:3])}
    status, error = _tree_status(found)
    return {"text": json.dumps(found), "status": status, "error": error, "truncated": room <= 0}


def _entries(path: str, room: int) -> Iterator[tuple[str, str]]:
    for folder in (os.path.dirname(path), path):
        if os.path.islink(folder) and os.path.isdir(folder):
            yield folder + "@", os.path.realpath(folder)
    if os.path.isdir(path):
        return
    try:
        yield path, _content(path, room)
    except OSError as error:
        yield path + "!", errno.errorcode.get(error.errno or 0, str(error))


def _tree_status(found: dict[str, Any]) -> tuple[Any, ...]:
    """Something was read: fine; else the reason that all files share."""
    errors = {value for key, value in found.items() if key.endswith("!")}
    if any(not key.endswith("!") for key in found):
        return "ok", ""
    denied = errors <= {"EACCES", "EPERM"}
    return "denied" if denied else "failed", ", ".join(sorted(errors))


def _content(path: str, limit: int) -> str:
    """Return at most `limit` bytes of a file as text. Opened so that a pipe or device cannot hold it."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(fd, "rb", buffering=0) as file:
        return b"".join(_chunks(file, limit)).decode("utf-8", "replace")


def _chunks(file: Any, limit: int) -> Iterator[bytes]:
    while limit > 0:
        chunk = file.read(min(limit, CHUNK_BYTES))
        if not chunk:
            return
        limit -= len(chunk)
        yield chunk
