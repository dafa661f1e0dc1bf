"""Error counters of NVLinks, since the driver was loaded or they were set back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qwenhost.facts.gpus import NVML
from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.nvml import Device, devices, get
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded

COUNTERS = recorded(
    "nvidia-smi-nvlink-errors",
    looks_like=r"^\s+Links? [\d-]+: (?:[\w ]+ Errors: \d|No errors\s*$)|^\s+Link \d+: Link recovery \w+ events",
)

KINDS = ("replay", "recovery", "crc_flit", "crc_data")
"""What NVML counts up to NVLink 4."""

HARMLESS = re.compile(r"fec|raw|symbol|ber\b|packets|bytes|successful|total link recovery", re.IGNORECASE)
"""Counters that are high on sound links, too: corrected code words, raw bits, traffic."""


@dataclass(frozen=True)
class LinkErrors:
    """`counts`: (GPU index, link) -> counter by name, lower case; only those above zero. Link -1: all links."""

    asked: tuple[int, ...]
    """Indices of the GPUs whose counters were seen."""
    counts: Mapping[tuple[int, int], Mapping[str, int]]
    bus_ids: Mapping[int, str]


@parses(NVML)
def errors_from_nvml(capture: Capture) -> LinkErrors:
    """Parse NVML's counters: sums per GPU, and per link where a sum is not zero."""
    listed = [device for device in devices(capture) if get(device, "nvlink_replay_errors") is not None]
    if not listed:
        raise Unparsable("NVML gave no counters")
    counts = {(device["index"], link): found for device in listed for link, found in _of(device) if found}
    addresses = {device["index"]: bus_id(get(device, "bus_id") or "") for device in listed}
    return LinkErrors(tuple(addresses), counts, addresses)


def _of(device: Device) -> Iterator[tuple[int, dict[str, int]]]:
    links = device.get("nvlink_errors") or {}
    for link, counters in links.items():
        yield int(link), _above_zero(counters)
    if not links:
        yield -1, _above_zero({kind: device.get(f"nvlink_{kind}_errors") for kind in KINDS})


def _above_zero(counters: Mapping[str, object]) -> dict[str, int]:
    return {name.replace("_", " "): count for name, count in counters.items() if isinstance(count, int) and count}


_LINE = re.compile(r"^\s+Link (\d+): ([A-Za-z][\w ]*?)(?: Errors)?: (\d+)\s*$", re.MULTILINE)


@parses(COUNTERS, trust=1)
def errors_from_listing(capture: Capture) -> LinkErrors:
    """Parse `nvidia-smi nvlink -e`: three counters per link, the many of driver 595, or ranges without errors."""
    asked, counts = list[int](), dict[tuple[int, int], dict[str, int]]()
    for block in re.split(r"^(?=GPU \d+: )", plain(capture.text), flags=re.MULTILINE):
        head = re.match(r"GPU (\d+): ", block)
        if head and COUNTERS.recognises(block):
            asked.append(int(head[1]))
            for link, name, count in _LINE.findall(block):
                if int(count) and not HARMLESS.search(name):
                    counts.setdefault((asked[-1], int(link)), {})[name.lower()] = int(count)
    if not asked:
        raise Unparsable("no counter in it")
    return LinkErrors(tuple(asked), counts, {})
