"""Which parts of /proc and /sys can be written: in a container, mostly none."""

from __future__ import annotations

from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file

TABLE = file("mount-table", "/proc/self/mounts", looks_like=r"^\S+ /proc proc (?:rw|ro)\b")


@dataclass(frozen=True)
class MountTable:
    """Where it is mounted and whether it is read-only, in the order of mounting."""

    mounts: tuple[tuple[str, bool], ...]

    def read_only(self, path: str) -> bool:
        """Tell whether a path lies on a read-only mount: that of the longest path, and of these the last."""
        over = [mount for mount in self.mounts if f"{path}/".startswith(f"{mount[0].rstrip('/')}/")]
        return bool(over) and max(enumerate(over), key=lambda item: (len(item[1][0]), item[0]))[1][1]


@parses(TABLE)
def mount_table(capture: Capture) -> MountTable:
    """Parse the kernel's table: device, place, type, options."""
    rows = [line.split() for line in capture.text.splitlines()]
    mounts = tuple((row[1], "ro" in row[3].split(",")) for row in rows if len(row) >= 4)
    if not any(place in ("/", "/proc") for place, _ in mounts):
        raise Unparsable("no mount of / or /proc in it")
    return MountTable(mounts)
