"""Room on a file system for a model that is still to come."""

from __future__ import annotations

import os

from qwenhost.hands.answer import Refused

MIB = 1024 * 1024


def need_room(part: str, bytes_in_all: int) -> None:
    """Raise Refused where the file system of a folder has no room for the rest of a model."""
    parent = os.path.dirname(part)
    os.makedirs(parent, exist_ok=True)
    present = sum(entry.stat().st_size for entry in os.scandir(part)) if os.path.isdir(part) else 0
    system = os.statvfs(parent)
    free = system.f_bavail * system.f_frsize
    if bytes_in_all - present > free:
        told = "{}: {} MiB are missing, {} MiB are free there; make room and run again"
        raise Refused(told.format(parent, (bytes_in_all - present) // MIB + 1, free // MIB))
