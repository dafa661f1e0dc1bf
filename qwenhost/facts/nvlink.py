"""NVLink: which links of which GPU are up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from qwenhost.facts.gpus import NVML
from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.nvml import Device, devices, get
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command

STATUS = command(
    "nvidia-smi-nvlink",
    "nvidia-smi",
    "nvlink",
    "-s",
    looks_like=r"^\s+Link \d+: (?:[\d.]+ GB/s|[^:\d\n]+$)"
    r"|as all links are inActive|Nvlink queries are not supported",
)

Silence = Literal["", "all inactive", "mig", "no links"]


@dataclass(frozen=True)
class GpuLinks:
    """Links of one GPU: number -> up. `silence`: why none are listed. Index -1: said of all GPUs at once."""

    index: int
    bus_id: str
    name: str
    links: tuple[tuple[int, bool], ...]
    silence: Silence = ""

    @property
    def up(self) -> tuple[int, ...]:
        """Numbers of the links that are up."""
        return tuple(link for link, active in self.links if active)

    @property
    def down(self) -> tuple[int, ...]:
        """Numbers of the links that are listed and not up."""
        return tuple(link for link, active in self.links if not active)

    @property
    def subject(self) -> str:
        """How findings name the GPU."""
        return f"gpu{self.index} {self.bus_id}".rstrip() if self.index >= 0 else "all GPUs"


@dataclass(frozen=True)
class NvLinks:
    """All GPUs that were asked, in the driver's order."""

    gpus: tuple[GpuLinks, ...]


@parses(NVML)
def links_from_nvml(capture: Capture) -> NvLinks:
    """Parse the link states that NVML gives; a lost GPU has none and is left out."""
    asked = [device for device in devices(capture) if isinstance(get(device, "nvlink"), list)]
    if not asked:
        raise Unparsable("NVML gave no link states")
    return NvLinks(tuple(_from_nvml(device) for device in asked))


def _from_nvml(device: Device) -> GpuLinks:
    links = tuple((int(link["link"]), link.get("state") == 1) for link in get(device, "nvlink"))
    silence: Silence = "" if links else "mig" if get(device, "mig_mode_current") else "no links"
    address, name = bus_id(get(device, "bus_id") or ""), get(device, "name") or ""
    return GpuLinks(int(device["index"]), address, name, links, silence)


@parses(STATUS, trust=1)
def links_from_status(capture: Capture) -> NvLinks:
    """Parse `nvidia-smi nvlink -s`: a link is up when a speed above zero is printed for it."""
    text = plain(capture.text)
    found = tuple(_blocks(text))
    if not found or not STATUS.recognises(text):
        raise Unparsable("no GPU with states of links in it")
    return NvLinks(found)


def _blocks(text: str) -> Iterator[GpuLinks]:
    blocks = re.split(r"^(?=GPU \d+: )", text, flags=re.MULTILINE)
    for block in blocks:
        head = re.match(r"GPU (\d+): (.*?)(?: \(UUID|$)", block)
        if head:
            links = tuple((int(link), _is_up(state)) for link, state in _LINK.findall(block))
            yield GpuLinks(int(head[1]), "", head[2], links, "" if links else _silence(block))
        elif len(blocks) == 1 and STATUS.recognises(block):
            yield GpuLinks(-1, "", "", (), _silence(block))


_LINK = re.compile(r"^\s+Link (\d+): ([^:\n]*)$", re.MULTILINE)
"""A state has no colon; error counters, throughput and remote devices, which other options print, have one."""


def _is_up(state: str) -> bool:
    speed = re.match(r"([\d.]+) GB/s", state.strip())
    return bool(speed and float(speed[1]) > 0)


def _silence(block: str) -> Silence:
    if "links are inActive" in block:
        return "all inactive"
    return "mig" if "MIG mode" in block else "no links"
