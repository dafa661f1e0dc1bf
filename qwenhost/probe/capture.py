"""Ask all sources at once, each in a process of its own, and never wait for one that does not answer.

Readers are processes and not threads: whatever touches a wedged driver can hang in the kernel, where no
signal reaches it. Such a process is abandoned; a thread would hold the probe itself.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any

from qwenhost.probe.reader import Reader

LONGEST_SECONDS = 10.0
"""Upper limit for the timeout of any source, so that the whole probe ends within twelve seconds."""

TICK_SECONDS = 0.05
DYING_SECONDS = 0.5
"""Time that a killed process has to go; one that stays is stuck in the kernel."""


def capture(sources: list[Any], host: str) -> dict[str, Any]:
    """Return the bundle, in its JSON form, for sources in the JSON form of `Source.request()`."""
    readers = [Reader(source, min(float(source["timeout_seconds"]), LONGEST_SECONDS)) for source in sources]
    _read_all(readers)
    _kill_late(readers)
    return {
        "schema": 1,
        "host": host,
        "captured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "captures": [reader.result() for reader in readers],
        "unrecognised": [],
        "notes": {"user_id": str(os.geteuid()), "kernel": os.uname().release},
    }


def _read_all(readers: list[Any]) -> None:
    """Read until every reader has ended or is late."""
    poller = select.poll()
    owners = {fd: reader for reader in readers for fd in reader.pipes}
    for fd in owners:
        poller.register(fd, select.POLLIN)
    waiting = list(readers)
    while waiting:
        for fd, _ in poller.poll(_patience(waiting) * 1000):
            if owners[fd].drain(fd):
                poller.unregister(fd)
        now = time.monotonic()
        waiting = [reader for reader in waiting if not (reader.ended() or reader.late(now))]
    for reader in readers:
        reader.drain_rest()


def _patience(waiting: list[Any]) -> float:
    """A reader whose pipes are closed is about to exit: look again at once."""
    return 0.001 if any(reader.silent() for reader in waiting) else TICK_SECONDS


def _kill_late(readers: list[Any]) -> None:
    """Kill what is still there, and note what cannot be killed."""
    left = [reader for reader in readers if not reader.ended()]
    for reader in left:
        reader.kill()
    end = time.monotonic() + DYING_SECONDS
    while left and time.monotonic() < end:
        time.sleep(0.01)
        left = [reader for reader in left if not reader.ended()]
    for reader in left:
        reader.stuck = True
