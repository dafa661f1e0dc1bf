"""nvidia-smi topo -m and nvidia-smi nvlink."""

from __future__ import annotations

from .. import state
from .machine import Gpu, all_gpus

LINKS = 12
UNDERLINE, PLAIN = "\x1b[4m", "\x1b[0m"
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def matrix(values: state.Values) -> str:
    """Return topo -m: tabs, an underlined header, CPU and NUMA affinity, as R580 prints it."""
    gpus = all_gpus(values)
    names = "\t".join(f"GPU{gpu.index}" for gpu in gpus)
    header = f"\t{UNDERLINE}{names}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID{PLAIN}"
    rows = [_row(values, gpu, gpus) for gpu in gpus]
    return "\n".join([header, *rows]) + "\n" + LEGEND


def _row(values: state.Values, gpu: Gpu, gpus: list[Gpu]) -> str:
    cells = "\t".join(cell(values, gpu, other) for other in gpus)
    node = gpu.number("numa")
    return f"GPU{gpu.index}\t{cells}\t{values[f'numa{node}.cpulist']}\t{node}\t\tN/A"


def cell(values: state.Values, gpu: Gpu, other: Gpu) -> str:
    """Return the cell of a pair: NVLinks first, else the PCIe way."""
    if gpu.slot == other.slot:
        return " X "
    links = 0 if gpu.mig or other.mig else shared_links(values, gpu, other)
    if links:
        return f"NV{links}"
    if gpu.text("pcie_switch") == other.text("pcie_switch"):
        return "PXB"
    return "NODE" if gpu.text("numa") == other.text("numa") else "SYS"


def active(gpu: Gpu) -> list[int]:
    """Return the links of a GPU that are up."""
    return [link for link in range(LINKS) if gpu.number(f"nvlink{link}")]


def shared_links(values: state.Values, gpu: Gpu, other: Gpu) -> int:
    """Return the number of NVLinks between two GPUs; through switches the smaller side counts."""
    if int(values["nvswitch.count"]):
        return min(len(active(gpu)), len(active(other)))
    bus_id = other.text("bus_id")
    return sum(gpu.text(f"nvlink{link}_to") == bus_id for link in active(gpu))


def status(gpus: list[Gpu]) -> str:
    """Return nvlink -s."""
    return "".join(_title(gpu) + _status(gpu) for gpu in gpus)


def _title(gpu: Gpu) -> str:
    return f"GPU {gpu.index}: {gpu.text('name')} (UUID: {gpu.text('uuid')})\n"


def _status(gpu: Gpu) -> str:
    if gpu.mig:
        return "Nvlink queries are not supported for Devices in MIG mode\n"
    if not active(gpu):
        return "NVML: Unable to retrieve NVLink information as all links are inActive\n"
    speed = gpu.number("link_speed_mbps") // 1000
    up = active(gpu)
    rows = [f"\t Link {link}: {f'{speed} GB/s' if link in up else '<inactive>'}\n" for link in range(LINKS)]
    return "".join(rows)


def errors(gpus: list[Gpu]) -> str:
    """Return nvlink -e: error counters of every active link."""
    text = ""
    for gpu in gpus:
        text += _title(gpu)
        if gpu.mig:
            text += "Nvlink queries are not supported for Devices in MIG mode\n"
            continue
        for link in active(gpu):
            for label, key in (("Replay", "replay"), ("Recovery", "recovery"), ("CRC", "crc_flit")):
                text += f"\t Link {link}: {label} Errors: {gpu.number(f'nvlink{link}_{key}')}\n"
            text += "\n"
    return text


def remotes(gpus: list[Gpu]) -> str:
    """Return nvlink -p: the bus id at the far end of every active link."""
    text = ""
    for gpu in gpus:
        text += _title(gpu)
        for link in active(gpu) if not gpu.mig else []:
            text += f"\t Link {link}: Remote Device 0000{gpu.text(f'nvlink{link}_to').upper()}: Link {link}\n"
    return text
