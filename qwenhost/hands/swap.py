"""Swap space: switched off whole, switched on again as it was."""

from __future__ import annotations

import os
import re
from typing import Any

from qwenhost.hands import command, kernel
from qwenhost.hands.answer import BadRequest, Refused, outcome

SECONDS = 600
"""What was swapped out is read back first."""


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Switch all swap off: {"on": false}. Raises Refused, also where memory has no room for what is in it."""
    if request["on"] is not False:
        raise BadRequest("swap can only be switched off")
    before = current()
    if before and not check:
        _need_room()
        command.call("swapoff", "-a", seconds=SECONDS)
        _need_none()
    return outcome(lines(before), lines([]))


def current() -> list[dict[str, Any]]:
    """Return what is in use: {"path", "priority"}; the kernel writes a blank in a path as \\040."""
    if not os.path.exists(kernel.path_of("proc/swaps")):
        return []
    rows = [line.split() for line in kernel.read(kernel.path_of("proc/swaps")).splitlines()[1:]]
    return [{"path": _plain(row[0]), "priority": int(row[4])} for row in rows]


def restore(swaps: list[dict[str, Any]]) -> None:
    """Switch on what was in use and is not. Raises Refused."""
    there = {row["path"] for row in current()}
    for row in swaps:
        if row["path"] not in there:
            own = ["--priority", str(row["priority"])] if row["priority"] >= 0 else []
            command.call("swapon", *own, row["path"])


def lines(swaps: list[dict[str, Any]]) -> list[str]:
    """Return a readable line for each."""
    return ["swap on {path}".format(**row) for row in swaps] or ["no swap"]


def _plain(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)


def _need_room() -> None:
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB", kernel.read(kernel.path_of("proc/meminfo")), re.MULTILINE))
    used = int(sizes["SwapTotal"]) - int(sizes["SwapFree"])
    if used > int(sizes["MemAvailable"]):
        told = "{} MiB are swapped out, and {} MiB of memory are available: stop what takes the memory first"
        raise Refused(told.format(used // 1024, int(sizes["MemAvailable"]) // 1024))


def _need_none() -> None:
    left = current()
    if left:
        raise Refused("; ".join(lines(left)) + ", after swapoff -a")
