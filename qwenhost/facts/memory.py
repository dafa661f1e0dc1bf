"""Memory and swap of the host."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.hugepages import MEMORY
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded

FREE = recorded("free", looks_like=r"^\s+total\s+used\s+free\b.*\n\s*Mem:\s+\d")
UNITS = {"K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}


@dataclass(frozen=True)
class Memory:
    """Memory that is there and available, and swap that is there and used; all in KiB."""

    total: int
    available: int | None
    swap_total: int
    swap_used: int


@parses(MEMORY)
def meminfo(capture: Capture) -> Memory:
    """Parse /proc/meminfo."""
    kib = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", capture.text, re.MULTILINE)}
    return Memory(kib["MemTotal"], kib.get("MemAvailable"), kib["SwapTotal"], kib["SwapTotal"] - kib["SwapFree"])


@parses(FREE, trust=1)
def free(capture: Capture) -> Memory:
    """Parse `free -h`; without units, the numbers may be bytes, KiB or MiB, and say nothing."""
    memory = re.search(r"^\s*Mem:\s+(.+)$", capture.text, re.MULTILINE)
    swap = re.search(r"^\s*Swap:\s+(\S+)\s+(\S+)", capture.text, re.MULTILINE)
    if not memory or not swap:
        raise Unparsable("no line of memory and swap in it")
    cells = memory[1].split()
    if cells[0].isdigit():
        raise Unparsable("numbers without units")
    available = _kib(cells[5]) if "available" in capture.text and len(cells) > 5 else None
    return Memory(_kib(cells[0]), available, _kib(swap[1]), _kib(swap[2]))


def _kib(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([BKMGT]?)i?", text)
    if not found:
        raise Unparsable(f"no size: {text!r}")
    return round(float(found[1]) * UNITS[found[2]]) if found[2] not in ("", "B") else 0
