"""Hosts of a rollout, a batch at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qwenhost.records.errors import QwenhostError

SERIAL = re.compile(r"(?P<number>[1-9]\d*)(?P<percent>%?)")


def batches(hosts: Sequence[str], serial: str) -> tuple[tuple[str, ...], ...]:
    """Split hosts, in their order, into batches of `serial` ("2", or "25%" of them, at least one; "" for all).

    Raises QwenhostError for another form of it.
    """
    size = _size(serial, len(hosts))
    return tuple(tuple(hosts[start : start + size]) for start in range(0, len(hosts), size))


def _size(serial: str, hosts: int) -> int:
    found = SERIAL.fullmatch(serial or "100%")
    if found is None:
        raise QwenhostError(f"--serial {serial}: neither a number of hosts nor a share", hint="such as 2 or 25%")
    number = int(found["number"])
    return max(1, hosts * number // 100) if found["percent"] else number
