"""Reads and writes kernel settings below /proc and /sys."""

from __future__ import annotations

import os


def path_of(*parts: str) -> str:
    """Return the path below the root; QWENHOST_ROOT puts another tree in its place."""
    return os.path.join(os.environ.get("QWENHOST_ROOT", "/"), *parts)


def read(path: str) -> str:
    """Return the text of a setting without its line end. Raises OSError."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


def write(path: str, text: str) -> None:
    """Write a setting in one call, as the kernel wants it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, text.encode("ascii") + b"\n")
    finally:
        os.close(descriptor)


def names(path: str) -> list[str]:
    """Return the entries of a folder, or none where it does not exist."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
