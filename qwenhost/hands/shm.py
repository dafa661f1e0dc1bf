"""Size of /dev/shm, a file system in memory."""

from __future__ import annotations

import os
from typing import Any

from qwenhost.hands import command, kernel
from qwenhost.hands.answer import Refused, outcome

MOUNT = "dev/shm"
PAGE_BYTES = 4096


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Give /dev/shm {"size_bytes"}; what lies in it stays. Raises Refused."""
    wanted = int(request["size_bytes"])
    before = size()
    if not before:
        raise Refused("/dev/shm is not mounted")
    if rounded(before) != rounded(wanted) and not check:
        command.call("mount", "-o", "remount,size={}".format(wanted), kernel.path_of(MOUNT))
        now = size()
        if rounded(now) != rounded(wanted):
            raise Refused("/dev/shm: {} bytes wanted, {} there".format(wanted, now))
    return outcome(_lines(before), _lines(wanted))


def size() -> int:
    """Return its size in bytes, 0 where nothing is mounted there."""
    path = kernel.path_of(MOUNT)
    if not os.path.ismount(path):
        return 0
    told = os.statvfs(path)
    return told.f_blocks * told.f_frsize


def rounded(size_bytes: int) -> int:
    """Return the whole pages that a size takes: the kernel counts in them."""
    return -(-size_bytes // PAGE_BYTES)


def _lines(size_bytes: int) -> list[str]:
    return ["/dev/shm: {} MiB".format(-(-size_bytes // (1 << 20)))]
