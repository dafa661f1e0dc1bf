"""Files that take effect with the next boot: each notes in which boot it was written.

A boot later, what such a file asks for is in force, or something else drops it: no further reboot helps then.
"""

from __future__ import annotations

from qwenhost.hands import kernel, own_files

HEADER = "# Ansible managed by qwenhost: changes are overwritten.\n# Written in boot {}\n"


def write(path: str, body: str) -> None:
    """Write a file with its stamp, whole or not at all; an empty body removes it."""
    own_files.put(path, _stamp() + body if body else None)


def _stamp() -> str:
    return HEADER.format(kernel.read(kernel.path_of("proc/sys/kernel/random/boot_id")))


def body_of(text: str | None) -> str:
    """Return a file's lines without comments."""
    lines = (text or "").splitlines(True)
    return "".join(line for line in lines if not line.startswith("#"))
