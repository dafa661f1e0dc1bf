"""Which processes use which GPU, as the driver lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from qwenhost.facts.gpus import CSV, NVML, QUERY, TABLE, XML
from qwenhost.facts.reading import bus_id, number, plain, value
from qwenhost.facts.registry import filled, parses
from qwenhost.facts.smi.csv import Row, rows
from qwenhost.facts.smi.nvml import Device, devices, get
from qwenhost.facts.smi.query import attached, blocks, paths
from qwenhost.facts.smi.table import gpus_from_table
from qwenhost.facts.smi.xml import root
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


@dataclass(frozen=True)
class GpuProcess:
    """One process on a GPU; None: not told. `kind`: "C" computes, "G" draws, "C+G" both."""

    pid: int
    name: str | None = None
    """Program or command line; None also where the driver finds no such process ("[Not Found]")."""
    used_mib: int | None = None
    kind: str | None = None
    cgroup: str | None = None
    """Control group of the process on the host, such as /system.slice/vllm@qwen.service."""

    @property
    def computes(self) -> bool:
        """Whether it holds a compute context; a display server does not."""
        return self.kind is None or "C" in self.kind


@dataclass(frozen=True)
class GpuUsers:
    """One GPU. `processes`: None when the driver did not tell (no permission, section left out), () for nobody."""

    processes: tuple[GpuProcess, ...] | None
    index: int | None = None
    bus_id: str | None = None
    uuid: str | None = None

    @property
    def computing(self) -> tuple[GpuProcess, ...] | None:
        """The processes with a compute context; None when not told."""
        return None if self.processes is None else tuple(each for each in self.processes if each.computes)


@dataclass(frozen=True)
class GpuProcesses:
    """All GPUs that were asked."""

    gpus: tuple[GpuUsers, ...]

    def of(self, index: int | None) -> GpuUsers | None:
        """Return the GPU with this index, None when it is not among them."""
        return next((gpu for gpu in self.gpus if gpu.index is not None and gpu.index == index), None)

    def merge(self, other: GpuProcesses) -> GpuProcesses:
        """Fill each GPU, and the names of its processes, from the other listing."""
        twins = [next((each for each in other.gpus if _same(gpu, each)), None) for gpu in self.gpus]
        return GpuProcesses(tuple(_joined(*pair) for pair in zip(self.gpus, twins, strict=True)))


def _same(one: GpuUsers, two: GpuUsers) -> bool:
    if one.bus_id and two.bus_id:
        return one.bus_id == two.bus_id
    if one.uuid and two.uuid:
        return one.uuid == two.uuid
    return one.index is not None and one.index == two.index


def _joined(gpu: GpuUsers, twin: GpuUsers | None) -> GpuUsers:
    if twin is None:
        return gpu
    whole = filled(gpu, twin)
    known = {process.pid: process for process in twin.processes or ()}
    told = tuple(filled(each, known.get(each.pid, each)) for each in whole.processes or ())
    return whole if whole.processes is None else replace(whole, processes=told)


@parses(NVML)
def processes_from_nvml(capture: Capture) -> GpuProcesses:
    """Parse NVML's compute processes; an error in their place means that it did not tell."""
    return GpuProcesses(tuple(_from_nvml(device) for device in devices(capture)))


def _from_nvml(device: Device) -> GpuUsers:
    listed = get(device, "processes")
    found = None if listed is None else tuple(_nvml_process(each) for each in listed)
    return GpuUsers(found, device["index"], bus_id(get(device, "bus_id") or "") or None, get(device, "uuid"))


def _nvml_process(raw: Device) -> GpuProcess:
    used = raw.get("used_bytes")
    name, cgroup = get(raw, "name"), get(raw, "cgroup")
    return GpuProcess(raw["pid"], name or None, None if used is None else used >> 20, "C", cgroup or None)


@parses(QUERY, trust=1)
def processes_from_query(capture: Capture) -> GpuProcesses:
    """Parse the processes of `nvidia-smi -q`."""
    text = plain(capture.text)
    found = list(blocks(text))
    if not found:
        raise Unparsable("no GPU block in it")
    whole = attached(text) in (None, len(found))
    return GpuProcesses(
        tuple(
            GpuUsers(_from_section(list(paths(lines))), index if whole else None, bus_id(address) or None)
            for index, (address, lines) in enumerate(found)
        )
    )


_SECTION_KEYS = {"type": "kind", "name": "name", "used gpu memory": "used", "used memory": "used"}


def _from_section(pairs: list[tuple[str, str]]) -> tuple[GpuProcess, ...] | None:
    """Return the processes of one block; "Processes : N/A" and a block without the section do not tell."""
    ours = [(path, text) for path, text in pairs if path == "processes" or path.startswith("processes/")]
    if not ours or value(ours[0][1]) is not None or ours[0][1].lower() == "n/a":
        return None
    rows = list[dict[str, str]]()
    for path, text in ours:
        key = path.rsplit("/", 1)[-1]
        if key == "process id":
            rows.append({"pid": text})
        elif rows and key in _SECTION_KEYS:
            rows[-1][_SECTION_KEYS[key]] = text
    return tuple(_printed(rows))


def _printed(rows: Iterable[Mapping[str, str | None]]) -> Iterator[GpuProcess]:
    for row in rows:
        pid = number(row["pid"])
        if pid is not None:
            yield GpuProcess(pid, _name(row.get("name")), number(row.get("used")), value(row.get("kind")))


def _name(text: str | None) -> str | None:
    bare = value(text)
    return None if bare is None or bare.lower() in ("[not found]", "-") else bare


@parses(XML, trust=1)
def processes_from_xml(capture: Capture) -> GpuProcesses:
    """Parse the processes of `nvidia-smi -q -x`."""
    log = root(capture.text)
    elements = log.findall("gpu")
    if not elements:
        raise Unparsable("no <gpu> in it")
    whole = number(log.findtext("attached_gpus")) in (None, len(elements))
    return GpuProcesses(tuple(_from_element(gpu, index if whole else None) for index, gpu in enumerate(elements)))


_TAGS = {"pid": "pid", "name": "process_name", "used": "used_memory", "kind": "type"}


def _from_element(gpu: Element, index: int | None) -> GpuUsers:
    section = gpu.find("processes")
    told = section is not None and not (section.text or "").strip()
    rows = [
        {key: row.findtext(tag) for key, tag in _TAGS.items()} for row in gpu.findall("processes/process_info")
    ]
    address = bus_id(gpu.get("id", "")) or None
    return GpuUsers(tuple(_printed(rows)) if told else None, index, address, gpu.findtext("uuid"))


@parses(CSV, trust=3)
def processes_from_csv(capture: Capture) -> GpuProcesses:
    """Parse --query-compute-apps with its header; it lists GPUs in use only, so that nobody is never told."""
    found = dict[tuple[str, str], list[Row]]()
    for row in rows(capture):
        if "pid" in row:
            found.setdefault((row.get("gpu_bus_id", ""), row.get("gpu_uuid", "")), []).append(row)
    if not found or ("", "") in found:
        raise Unparsable("no processes by GPU in it")
    return GpuProcesses(
        tuple(
            GpuUsers(tuple(_printed(map(_columns, listed))), None, bus_id(address) or None, uuid or None)
            for (address, uuid), listed in found.items()
        )
    )


def _columns(row: Row) -> dict[str, str | None]:
    name = row.get("process_name", row.get("name"))
    return {"pid": row["pid"], "name": name, "used": row.get("used_gpu_memory", row.get("used_memory"))}


_ROW = re.compile(
    r"^[^\w|\n]*\|\s+(?P<gpu>\d+)\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(?P<pid>\d+)\s+(?P<kind>M\+C|C\+G|C|G)\s+"
    r"(?P<name>\S.*?)\s+(?P<used>\d+\s?MiB|N/A)\s*\|",
    re.MULTILINE,
)
_END = re.compile(r"No running processes found|Processes:[^\n]*\n(?:[^\n]*\n){1,4}?\W*\|=+\|", re.IGNORECASE)


@parses(TABLE, trust=2)
def processes_from_table(capture: Capture) -> GpuProcesses:
    """Parse the lower part of the summary table, with and without the columns of GPU instances."""
    text = plain(capture.text)
    listed = gpus_from_table(capture).gpus
    if not listed or not _END.search(text):
        raise Unparsable("no list of processes under the table")
    rows = [found.groupdict() for found in _ROW.finditer(text)]
    return GpuProcesses(
        tuple(
            GpuUsers(tuple(_printed(row for row in rows if int(row["gpu"]) == gpu.index)), gpu.index, gpu.bus_id)
            for gpu in listed
        )
    )
