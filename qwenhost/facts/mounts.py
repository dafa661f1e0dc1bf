"""File systems: their size and what is free, and complaints that shared memory is full."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import filled, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, recorded

DF = command(
    "df",
    "df",
    "-l",
    "-B1",
    "--output=source,fstype,size,avail,itotal,iavail,target",
    looks_like=r"^Filesystem\s.*\bMounted on\s*$",
    good_exits=(0, 1),
)
"""Exit 1 tells of a single mount that could not be read; the others are listed."""

TROUBLE = r"(?:[Ee]rror|[Ff]ailed|[Nn]o space left)"

SHM_FULL = recorded(
    "shm-log",
    looks_like=rf"{TROUBLE}[^\n]{{0,400}}/dev/shm/|/dev/shm/[^\n]{{0,400}}{TROUBLE}"
    rf"|insufficient shared memory \(shm\)|unable to write to file </torch_[^\n]{{0,400}}{TROUBLE}",
)
"""Said by NCCL and by PyTorch's workers."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
SIZES = ("Size", "1B-blocks", "1K-blocks", "1024-blocks", "1M-blocks")


@dataclass(frozen=True)
class Mount:
    """A mounted file system: bytes and inodes, None where not printed; some have no inode limit (0)."""

    size: int | None = None
    free: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    line: str = ""


@dataclass(frozen=True)
class Mounts:
    """Where it is mounted -> file system."""

    at: Mapping[str, Mount]

    def merge(self, other: Mounts) -> Mounts:
        """Add what only the other view has, such as inodes."""
        both = {path: filled(mount, other.at.get(path, Mount())) for path, mount in self.at.items()}
        return Mounts({**other.at, **both})


@dataclass(frozen=True)
class SharedMemoryFull:
    """A program found no room in /dev/shm; `line` is how it said so."""

    line: str


@parses(DF)
def mounts(capture: Capture) -> Mounts:
    """Parse the table of df, with whatever options."""
    found = dict(_rows(plain(capture.text)))
    if not found:
        raise Unparsable("no file system in it")
    return Mounts(found)


def _rows(text: str) -> Iterator[tuple[str, Mount]]:
    header: list[str] = []
    for line in text.splitlines():
        if re.match(r"Filesystem\s.*Mounted on\s*$", line):
            header = line.replace("Mounted on", "Mounted").split()
            continue
        cells = line.split(None, len(header) - 1) if header else []
        if not cells or len(cells) != len(header) or not cells[-1].startswith("/"):
            continue
        yield cells[-1].strip(), _mount(dict(zip(header, cells, strict=True)), line.strip())


def _mount(row: Mapping[str, str], line: str) -> Mount:
    name = next((name for name in SIZES if name in row), "")
    scale = UNITS["K"] if name in ("1K-blocks", "1024-blocks") else UNITS["M"] if name == "1M-blocks" else 1
    return Mount(
        _count(row.get(name), scale),
        _count(row.get("Avail") or row.get("Available"), scale),
        _count(row.get("Inodes"), 1),
        _count(row.get("IFree"), 1),
        line,
    )


def _count(text: str | None, scale: int) -> int | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)i?B?", text or "")
    return round(float(found[1]) * UNITS[found[2]] * (1 if found[2] else scale)) if found else None


@parses(SHM_FULL)
def shared_memory_full(capture: Capture) -> SharedMemoryFull:
    """Parse a program's log."""
    for line in plain(capture.text).splitlines():
        if SHM_FULL.recognises(line):
            return SharedMemoryFull(line.strip())
    raise Unparsable("no such error in it")
