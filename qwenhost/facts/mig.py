"""MIG devices: what partitions exist on which GPU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from qwenhost.facts.gpus import LISTING, MIG_INSTANCES, NVML, TABLE, XML
from qwenhost.facts.reading import number, plain
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.nvml import Device, devices, get
from qwenhost.facts.smi.xml import root
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_PROFILE = re.compile(r"\b\d+g\.\d+gb(?:\+me(?:\.all)?)?\b")


@dataclass(frozen=True)
class MigInstance:
    """One MIG device. `profile` is None where the form that was read does not name it."""

    gpu: int
    position: int
    profile: str | None = None
    uuid: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True)
class MigInstances:
    """All MIG devices of the host, by GPU and position; empty when there is none."""

    devices: tuple[MigInstance, ...]

    def on(self, gpu: int) -> tuple[MigInstance, ...]:
        """Return the MIG devices of one GPU."""
        return tuple(device for device in self.devices if device.gpu == gpu)


@parses(NVML)
def instances_from_nvml(capture: Capture) -> MigInstances:
    """Parse the MIG devices that NVML lists."""
    listed = devices(capture)
    if not listed or not any(get(device, "mig_devices") is not None for device in listed):
        modes = [get(device, "mig_mode_current") for device in listed]
        if not listed or any(mode != 0 and mode is not False for mode in modes):
            raise Unparsable("NVML listed no MIG devices")
    return MigInstances(tuple(found for device in listed for found in _from_nvml(device)))


def _from_nvml(device: Device) -> Iterator[MigInstance]:
    """Yield a GPU's MIG devices; with MIG off, NVML answers each place with an error."""
    if get(device, "mig_mode_current") == 0:
        return
    for mig in get(device, "mig_devices") or ():
        if "error" in mig:
            raise Unparsable(f"MIG device {mig['index']} of GPU {device['index']}: {mig['error']}")
        profile = _PROFILE.search(str(mig.get("name") or ""))
        memory = get(mig, "memory_total_bytes")
        yield MigInstance(
            gpu=device["index"],
            position=mig["index"],
            profile=profile[0] if profile else None,
            uuid=get(mig, "uuid"),
            gpu_instance=get(mig, "gi_id"),
            compute_instance=get(mig, "ci_id"),
            memory_mib=memory >> 20 if memory is not None else None,
        )


@parses(LISTING, trust=1)
def instances_from_listing(capture: Capture) -> MigInstances:
    """Parse `nvidia-smi -L`, whose indented lines are MIG devices."""
    if not LISTING.recognises(capture.text):
        raise Unparsable("no GPU line in it")
    return MigInstances(tuple(_from_listing(plain(capture.text))))


def _from_listing(text: str) -> Iterator[MigInstance]:
    gpu = -1
    for line in text.splitlines():
        head = re.match(r"GPU (\d+): ", line)
        gpu = int(head[1]) if head else gpu
        mig = re.match(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]*)\)", line)
        if mig:
            yield MigInstance(gpu, int(mig[2]), profile=mig[1], uuid=mig[3])


@parses(XML, trust=2)
def instances_from_xml(capture: Capture) -> MigInstances:
    """Parse the MIG devices of `nvidia-smi -q -x`, which names no profiles."""
    found = [
        MigInstance(
            gpu=index,
            position=number(mig.findtext("index")) or 0,
            gpu_instance=number(mig.findtext("gpu_instance_id")),
            compute_instance=number(mig.findtext("compute_instance_id")),
            memory_mib=number(mig.findtext("fb_memory_usage/total")),
        )
        for index, gpu in enumerate(root(capture.text).findall("gpu"))
        for mig in gpu.findall("mig_devices/mig_device")
    ]
    return MigInstances(tuple(found))


_GPU_INSTANCE = re.compile(r"^\|\s+(\d+)\s+MIG (\S+)\s+\d+\s+(\d+)\s+\d+:\d+\s*\|", re.MULTILINE)


@parses(MIG_INSTANCES, trust=4)
def instances_from_gpu_instances(capture: Capture) -> MigInstances:
    """Parse the table of `nvidia-smi mig -lgi`; on each of its GPUs they are counted from 0."""
    seen = Counter[int]()
    found = []
    for gpu, profile, instance in _GPU_INSTANCE.findall(plain(capture.text)):
        found.append(MigInstance(int(gpu), seen[int(gpu)], profile=profile, gpu_instance=int(instance)))
        seen[int(gpu)] += 1
    return MigInstances(tuple(found))


_ROW = re.compile(r"^[^\w|\n]*\|\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+\|\s+\d+MiB\s*/\s*(\d+)MiB\s*\|", re.MULTILINE)


@parses(TABLE, trust=3)
def instances_from_table(capture: Capture) -> MigInstances:
    """Parse the MIG block of the summary table, which names no profiles."""
    text = plain(capture.text)
    if not re.search(r"\| *NVIDIA-SMI \d", text):
        raise Unparsable("no table")
    rows = [tuple(int(cell) for cell in row) for row in _ROW.findall(text)]
    return MigInstances(
        tuple(
            MigInstance(gpu, position, gpu_instance=gi, compute_instance=ci, memory_mib=memory)
            for gpu, gi, ci, position, memory in rows
        )
    )
