"""Whether a MIG layout is possible: the board's profiles, slices and placements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from qwenhost.expectations.tables import table
from qwenhost.records.desired import MigLayout

COMPUTE_SLICES = 7
MEMORY_SLICES = 8
"""Of every A100 and A800 (NVIDIA MIG User Guide); a table of other boards says its own."""

NOBODY = -1
"""Index in a layout that is not yet given to a GPU."""

MEDIA = "+me"
"""Ends a profile that takes the media engines, of which a board has one set (NVIDIA MIG User Guide)."""

TERM = re.compile(r"(?P<name>\d+g\.\d+gb(?:\+me)?)(?:\s*[x*]\s*(?P<count>[1-9]\d?))?")


@dataclass(frozen=True)
class GpuInstanceProfile:
    """One way to cut an instance; `placements` are its possible first memory slices."""

    name: str
    compute_slices: int
    memory_slices: int
    memory_mib: int
    max_instances: int
    placements: tuple[int, ...]


@dataclass(frozen=True)
class Partitions:
    """The declared layouts of a host: by GPU index, and of all `others` (None: they are not managed)."""

    named: Mapping[int, MigLayout]
    others: MigLayout | None = None

    def layout_of(self, gpu: int) -> MigLayout | None:
        """Return the layout of one GPU; None where it is not managed."""
        found = self.named.get(gpu, self.others)
        return replace(found, gpu=gpu) if found else None

    def declared(self) -> tuple[tuple[int | None, MigLayout], ...]:
        """Return each declared layout with its GPU, None for all others."""
        return (*self.named.items(), *([(None, self.others)] if self.others else []))


@cache
def profiles(mig: str) -> Mapping[str, GpuInstanceProfile]:
    """Return the profiles of data/mig/<mig>.yaml by name."""
    rows = table(f"mig/{mig}.yaml")["profiles"]
    return {row["name"]: _profile(row) for row in rows}


def slices(mig: str) -> tuple[int, int]:
    """Return how many compute and memory slices a GPU of this table has."""
    raw = table(f"mig/{mig}.yaml")
    return int(raw.get("compute_slices", COMPUTE_SLICES)), int(raw.get("memory_slices", MEMORY_SLICES))


def _profile(row: Mapping[str, object]) -> GpuInstanceProfile:
    numbers = {
        key: int(str(row[key])) for key in ("compute_slices", "memory_slices", "memory_mib", "max_instances")
    }
    placements = row["placements"]
    assert isinstance(placements, list)
    return GpuInstanceProfile(name=str(row["name"]), placements=tuple(placements), **numbers)


def parse_layout(text: str) -> tuple[str, ...]:
    """Read "3g.40gb x2, 1g.10gb" into profile names, largest first. Raises ValueError."""
    found: list[str] = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        match = TERM.fullmatch(term)
        if match is None:
            raise ValueError(f"{term!r} is not like '3g.40gb' or '3g.40gb x2', 1 to 99 of them")
        found += [match["name"]] * int(match["count"] or 1)
    return in_order(found)


def in_order(names: Sequence[str]) -> tuple[str, ...]:
    """Return profile names largest first."""
    return tuple(sorted(names, key=_size, reverse=True))


def _size(name: str) -> tuple[int, int]:
    compute, memory = re.findall(r"\d+", name)[:2]
    return int(memory), int(compute)


def obstacle(mig: str, layout: Sequence[str]) -> str:
    """Return why this layout cannot be cut from one GPU; empty when it can."""
    known = profiles(mig)
    for name in layout:
        if name not in known:
            return f"there is no profile {name} on this board, only {', '.join(known)}"
        if layout.count(name) > known[name].max_instances:
            return f"{layout.count(name)} x {name}, at most {known[name].max_instances} fit"
    if sum(name.endswith(MEDIA) for name in layout) > 1:
        return f"more than one {MEDIA}: a board has one set of media engines"
    compute, (most, memory) = sum(known[name].compute_slices for name in layout), slices(mig)
    if compute > most:
        return f"{compute} compute slices, a GPU has {most}"
    wanted = sorted((known[name] for name in layout), key=lambda profile: -profile.memory_slices)
    return "" if _place(wanted, frozenset()) else f"no placement on the {memory} memory slices"


def _place(wanted: Sequence[GpuInstanceProfile], taken: frozenset[int]) -> bool:
    """Try every placement of the first profile, then of the rest."""
    if not wanted:
        return True
    first, rest = wanted[0], wanted[1:]
    for start in first.placements:
        slices = frozenset(range(start, start + first.memory_slices))
        if not slices & taken and _place(rest, taken | slices):
            return True
    return False
