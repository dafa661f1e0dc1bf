"""What trials measured: copies over PCIe, within and between GPUs, a sum over all. Rates in GB/s (1e9)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source

TRIAL_SECONDS = 90.0
"""Limit of one trial; starting PyTorch and CUDA on a busy host takes 20 s of it."""


def _trial(name: str) -> Source:
    form = rf'\A\s*\{{"trial": "{name}", "torch": '
    return Source(f"trial-{name}", "trial", argv=(name,), timeout_seconds=TRIAL_SECONDS, looks_like=form)


HOST_COPY = _trial("host-copy")
DEVICE_MEMORY = _trial("device-memory")
PEER_COPY = _trial("peer-copy")
ALL_REDUCE = _trial("all-reduce")

TRIALS = (HOST_COPY, DEVICE_MEMORY, PEER_COPY, ALL_REDUCE)


def refusal(source: Source, why: str) -> Capture:
    """Return the capture of a trial that was not run, because it would have disturbed somebody."""
    return Capture(source.name, "ok", json.dumps({"refused": why}))


@dataclass(frozen=True)
class HostCopy:
    """Copies between pinned host memory and one GPU, and its PCIe link as it was meanwhile."""

    gpu: int
    bus_id: str
    to_gpu_gb_per_s: float
    to_host_gb_per_s: float
    link_speed_gt_per_s: float | None = None
    link_width: float | None = None


@dataclass(frozen=True)
class HostCopies:
    """One row per GPU. `refused` says why the trial was not run; empty when it was."""

    rows: tuple[HostCopy, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class MemoryCopy:
    """A copy within one GPU's memory; bytes read and bytes written both count."""

    gpu: int
    bus_id: str
    gb_per_s: float
    intact: bool


@dataclass(frozen=True)
class MemoryCopies:
    """One row per GPU."""

    rows: tuple[MemoryCopy, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class PeerCopy:
    """A copy from one GPU to another; without a direct way neither figure is there."""

    one: int
    two: int
    direct: bool
    gb_per_s: float | None = None
    intact: bool | None = None


@dataclass(frozen=True)
class PeerCopies:
    """One row per ordered pair."""

    rows: tuple[PeerCopy, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class AllReduce:
    """A sum over all GPUs; `bus_gb_per_s` as nccl-tests define it. One GPU has neither figure."""

    gpus: int = 0
    bus_gb_per_s: float | None = None
    right: bool | None = None
    refused: str = ""


@parses(HOST_COPY)
def host_copies(capture: Capture) -> HostCopies:
    """Parse what the trial printed."""
    raw = _read(capture)
    return HostCopies(tuple(HostCopy(**row) for row in raw["gpus"])) if "gpus" in raw else HostCopies(**raw)


@parses(DEVICE_MEMORY)
def memory_copies(capture: Capture) -> MemoryCopies:
    """Parse what the trial printed."""
    raw = _read(capture)
    return MemoryCopies(tuple(MemoryCopy(**row) for row in raw["gpus"])) if "gpus" in raw else MemoryCopies(**raw)


@parses(PEER_COPY)
def peer_copies(capture: Capture) -> PeerCopies:
    """Parse what the trial printed."""
    raw = _read(capture)
    return PeerCopies(tuple(_peer_copy(row) for row in raw["pairs"])) if "pairs" in raw else PeerCopies(**raw)


def _peer_copy(row: Mapping[str, Any]) -> PeerCopy:
    return PeerCopy(row["from"], row["to"], row["direct"], row.get("gb_per_s"), row.get("intact"))


@parses(ALL_REDUCE)
def all_reduce(capture: Capture) -> AllReduce:
    """Parse what the trial printed."""
    return AllReduce(**_read(capture))


def _read(capture: Capture) -> dict[str, Any]:
    raw = json.loads(capture.text)
    if not isinstance(raw, dict):
        raise Unparsable("no trial's answer")
    return {key: value for key, value in raw.items() if key not in ("trial", "torch")}
