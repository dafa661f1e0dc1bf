"""Ask all sources at once, in other processes, and never wait for what does not answer.

Processes and not threads: whatever touches a wedged driver can hang in the kernel, where no signal reaches
it. Such a process is abandoned; a thread would hold the probe itself.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any, Iterator

from qwenhost.probe.child import Child
from qwenhost.probe.command import Command
from qwenhost.probe.in_turn import InTurn

LONGEST_SECONDS = 10.0
"""Upper limit for the timeout of any source, so that the whole probe ends within twelve seconds."""

TICK_SECONDS = 0.05
DYING_SECONDS = 0.5
"""Time that a killed process has to go; one that stays is stuck in the kernel."""


def capture(sources: list[Any], host: str) -> dict[str, Any]:
    """Return the bundle, in its JSON form, for sources in the JSON form of `Source.request()`."""
    children = list(_children(sources))
    _read_all(children)
    _kill_late(children)
    found = {answer["source"]: answer for child in children for answer in child.captures()}
    return {
        "schema": 1,
        "host": host,
        "captured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "captures": [found[source["name"]] for source in sources],
        "unrecognised": [],
        "notes": {"user_id": str(os.geteuid()), "kernel": os.uname().release},
    }


def _children(sources: list[Any]) -> Iterator[Child]:
    """Start a process for NVML, which takes longest, one for all that is read in turn, and one per command."""
    in_turn: dict[tuple[bool, float], list[Any]] = {}
    for source in sources:
        if source["kind"] != "command":
            in_turn.setdefault((source["kind"] != "nvml", _timeout_seconds(source)), []).append(source)
    for (_, timeout_seconds), together in sorted(in_turn.items(), key=lambda item: item[0]):
        yield InTurn(together, timeout_seconds)
    for source in sources:
        if source["kind"] == "command":
            yield Command(source, _timeout_seconds(source))


def _timeout_seconds(source: dict[str, Any]) -> float:
    return min(float(source["timeout_seconds"]), LONGEST_SECONDS)


def _read_all(children: list[Child]) -> None:
    """Read until every process has ended or is late."""
    poller = select.poll()
    owners = {fd: child for child in children for fd in child.pipes}
    for fd in owners:
        poller.register(fd, select.POLLIN)
    waiting = list(children)
    while waiting:
        for fd, _ in poller.poll(_patience(waiting) * 1000):
            if owners[fd].drain(fd):
                poller.unregister(fd)
        now = time.monotonic()
        waiting = [child for child in waiting if not (child.ended() or child.late(now))]
    for child in children:
        child.drain_rest()


def _patience(waiting: list[Child]) -> float:
    """A process whose pipes are closed is about to exit: look again at once."""
    return 0.001 if any(child.silent() for child in waiting) else TICK_SECONDS


def _kill_late(children: list[Child]) -> None:
    """Kill what is still there, and note what cannot be killed."""
    left = [child for child in children if not child.ended()]
    for child in left:
        child.kill()
    end = time.monotonic() + DYING_SECONDS
    while left and time.monotonic() < end:
        time.sleep(0.01)
        left = [child for child in left if not child.ended()]
    for child in left:
        child.stuck = True
