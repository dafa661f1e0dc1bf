"""Replay counters of the GPUs' PCIe links, each reading with its time, so that two make a rate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from qwenhost.facts.gpus import NVML, QUERY, XML
from qwenhost.facts.reading import bus_id, number, plain
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.nvml import devices, get
from qwenhost.facts.smi.query import blocks, paths
from qwenhost.facts.smi.xml import root
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


@dataclass(frozen=True)
class Reading:
    """Counters by bus id, and when they were read by the host's clock (None: not noted)."""

    counters: Mapping[str, int]
    at: datetime | None = None


@dataclass(frozen=True)
class Replays:
    """All readings of a bundle."""

    readings: tuple[Reading, ...]

    def merge(self, other: Replays) -> Replays:
        """Keep both."""
        return Replays((*self.readings, *other.readings))

    def last(self) -> Mapping[str, int]:
        """Return the newest known counter of each GPU: counters only grow."""
        found = dict[str, int]()
        for reading in self.readings:
            for where, count in reading.counters.items():
                found[where] = max(count, found.get(where, 0))
        return found

    def per_minute(self, where: str) -> float | None:
        """Return the rate between the first and the last dated reading of a GPU; None without two."""
        dated = sorted(
            (reading.at, reading.counters[where])
            for reading in self.readings
            if reading.at and where in reading.counters
        )
        if len(dated) < 2 or dated[-1][0] == dated[0][0] or dated[-1][1] < dated[0][1]:
            return None
        (start, before), (end, after) = dated[0], dated[-1]
        return (after - before) / ((end - start).total_seconds() / 60)


@parses(NVML)
def replays_from_nvml(capture: Capture) -> Replays:
    """Parse NVML's counters, which carry no time."""
    found = {
        bus_id(get(device, "bus_id") or ""): get(device, "pcie_replay_counter") for device in devices(capture)
    }
    return _reading({where: count for where, count in found.items() if where and count is not None}, None)


@parses(QUERY, trust=1)
def replays_from_query(capture: Capture) -> Replays:
    """Parse "Replays Since Reset" of each block."""
    text = plain(capture.text)
    told = {bus_id(address): dict(paths(lines)).get("pci/replays since reset") for address, lines in blocks(text)}
    stamp = re.search(r"^Timestamp\s*: (.+)$", text, re.MULTILINE)
    return _reading(_numbers(told), stamp[1] if stamp else None)


@parses(XML, trust=1)
def replays_from_xml(capture: Capture) -> Replays:
    """Parse <replay_counter> of each GPU."""
    log = root(capture.text)
    told = {bus_id(gpu.get("id", "")): gpu.findtext("pci/replay_counter") for gpu in log.findall("gpu")}
    return _reading(_numbers(told), log.findtext("timestamp"))


def _numbers(told: Mapping[str, str | None]) -> dict[str, int]:
    return {where: count for where, text in told.items() if where and (count := number(text)) is not None}


def _reading(counters: Mapping[str, int], stamp: str | None) -> Replays:
    if not counters:
        raise Unparsable("no replay counter in it")
    return Replays((Reading(counters, _time(stamp)),))


def _time(stamp: str | None) -> datetime | None:
    """Read the tool's stamp, such as "Tue Dec  1 03:17:10 2026"."""
    try:
        return datetime.strptime(stamp.strip(), "%a %b %d %H:%M:%S %Y") if stamp else None
    except ValueError:
        return None
