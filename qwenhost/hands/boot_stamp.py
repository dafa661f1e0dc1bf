"""Files that take effect with the next boot: each notes in which boot it was written.

A boot later, what such a file asks for is in force, or something else drops it: no further reboot helps then.
"""

from __future__ import annotations

import contextlib
import os

from qwenhost.hands import kernel

HEADER = "# Ansible managed by qwenhost: changes are overwritten.\n# Written in boot {}\n"


def read(path: str) -> str | None:
    """Return a file below the root, None where there is none."""
    try:
        with open(kernel.path_of(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(path: str, body: str) -> None:
    """Write a file with its stamp, whole or not at all; an empty body removes it."""
    real = kernel.path_of(path)
    if not body:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(real)
        return
    put(path, HEADER.format(kernel.read(kernel.path_of("proc/sys/kernel/random/boot_id"))) + body)


def put(path: str, text: str | None) -> None:
    """Bring back what `read` returned."""
    real = kernel.path_of(path)
    if text is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(real)
        return
    os.makedirs(os.path.dirname(real), exist_ok=True)
    beside = real + ".qwenhost-new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(beside, 0o644)
    os.replace(beside, real)


def body_of(text: str | None) -> str:
    """Return a file's lines without comments."""
    lines = (text or "").splitlines(True)
    return "".join(line for line in lines if not line.startswith("#"))
