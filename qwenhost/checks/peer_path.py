"""What stands on the way between GPUs over PCIe: ACS of the ports above them, and the IOMMU."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.virtual import virtual
from qwenhost.facts.acs import AcsLines
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.iommu import TRANSLATING, Iommu
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.rdma_ports import RdmaPorts
from qwenhost.facts.topology import Topology
from qwenhost.records.finding import Verdict, by_hand

HOST = "host"

VIRTUAL = "a virtual machine: the hypervisor needs it to keep guests apart"


@check(
    "pcie.acs",
    remedy=by_hand(
        "Switch ACS off in the firmware setup, or on each of these ports after each boot:"
        " setpci -s PORT ECAP_ACS+0x6.w=0; then run the service again."
    ),
)
def acs(
    pci: PciDevices | None,
    lines: AcsLines | None,
    matrix: Topology | None,
    gpus: Gpus | None,
    iommu: Iommu | None,
    ports: RdmaPorts | None,
) -> Iterator[Judgement]:
    """No port above a GPU redirects what GPUs and network cards write to one another.

    With redirection on, ACS sends peer traffic through the root complex: it gets slow, or is lost, and
    NCCL hangs without a word. Virtual machines need it; bare metal does not.
    """
    redirecting = _redirecting(pci)
    if virtual(pci, gpus, iommu):
        yield skip(HOST, VIRTUAL)
    elif _alone(pci, gpus, matrix) and not (ports and ports.any):
        yield skip(HOST, "one GPU, and no HCA")
    elif redirecting:
        yield _told(redirecting, _all_nvlink(matrix) and not (ports and ports.any))
    elif pci and _registers_read(pci):
        yield Judgement(HOST, Verdict.PASS, "no port above a GPU redirects")
    elif lines:
        yield _cut_out(lines)
    elif _all_nvlink(matrix) and not (ports and ports.any):
        yield skip(HOST, "NVLink joins all GPUs, and there is no HCA")
    elif iommu and iommu.on is not None:
        kernel = (
            "with an IOMMU the kernel may switch it on"
            if iommu.on
            else "without an IOMMU the kernel leaves it off"
        )
        yield note(HOST, f"registers not read (lspci -vvv, as root); {kernel}")


def _redirecting(pci: PciDevices | None) -> dict[str, list[str]]:
    """Return port -> GPUs below it, for ports that redirect."""
    found = dict[str, list[str]]()
    for gpu in pci.gpus if pci else ():
        for port in pci.above(gpu) if pci else ():
            if port.acs_redirect:
                found.setdefault(port.bus_id, []).append(gpu.bus_id)
    return found


def _registers_read(pci: PciDevices) -> bool:
    """Tell whether ACS was readable, and the ports above all GPUs are known."""
    placed = all(gpu.upstream or gpu.at_root for gpu in pci.gpus)
    return placed and any(device.acs_redirect is not None for device in pci.devices)


def _told(redirecting: dict[str, list[str]], mild: bool) -> Judgement:
    below = sorted({gpu for gpus in redirecting.values() for gpu in gpus})
    return Judgement(
        f"ports {', '.join(redirecting)}",
        Verdict.NOTE if mild else Verdict.WARN,
        f"redirect above {', '.join(below)}" + (" (NVLink joins the GPUs)" if mild else ""),
        "ReqRedir- CmpltRedir-",
    )


def _cut_out(lines: AcsLines) -> Judgement:
    if not lines.redirecting:
        return Judgement(HOST, Verdict.PASS, f"none of {len(lines.lines)} ports redirects")
    told = f"{len(lines.redirecting)} of {len(lines.lines)} ports redirect; whether GPUs are below was not seen"
    return Judgement(HOST, Verdict.WARN, told, "ReqRedir- CmpltRedir-", evidence=lines.redirecting[0])


@check(
    "pcie.iommu",
    remedy=by_hand(
        "Add iommu=pt to the kernel's arguments and reboot; without virtual machines it may be off altogether."
    ),
)
def translation(
    iommu: Iommu,
    pci: PciDevices | None,
    gpus: Gpus | None,
    matrix: Topology | None,
    ports: RdmaPorts | None,
) -> Iterator[Judgement]:
    """On bare metal the IOMMU lets the GPUs through.

    Where it translates, direct access between GPUs over PCIe, and between GPUs and network cards, is slow,
    loses data or hangs. A virtual machine does not see the IOMMU that counts.
    """
    mild = _all_nvlink(matrix) and not (ports and ports.any)
    if virtual(pci, gpus, iommu):
        yield skip(HOST, "a virtual machine: the hypervisor's IOMMU is not seen here")
    elif _alone(pci, gpus, matrix) and not (ports and ports.any):
        yield skip(HOST, "one GPU, and no HCA")
    else:
        yield from _mode(iommu, pci, Verdict.NOTE if mild else Verdict.WARN)


def _mode(iommu: Iommu, pci: PciDevices | None, otherwise: Verdict) -> Iterator[Judgement]:
    kinds = {device.bus_id: iommu.type_of(device.bus_id) for device in pci.gpus} if pci else {}
    translated = [gpu for gpu, kind in kinds.items() if kind in TRANSLATING]
    known = any(kinds.values())
    evidence = iommu.line or ""
    if iommu.fault and (not kinds or any(gpu[5:] in iommu.fault for gpu in kinds)):
        yield Judgement(
            HOST, Verdict.WARN, "refused an access of a GPU", "pass-through, or off", evidence=iommu.fault
        )
    elif translated:
        told = f"translates for {', '.join(translated)}"
        yield Judgement(HOST, otherwise, told, "pass-through, or off", evidence=evidence)
    elif known or iommu.translates is False:
        yield Judgement(HOST, Verdict.PASS, "pass-through", evidence=evidence)
    elif iommu.on is False or iommu.groups:
        yield Judgement(
            HOST, Verdict.PASS, "off" if iommu.on is False else "no GPU is behind it", evidence=evidence
        )
    elif iommu.on and iommu.translates:
        yield Judgement(HOST, otherwise, "translates", "pass-through, or off", evidence=evidence)


def _alone(pci: PciDevices | None, gpus: Gpus | None, matrix: Topology | None) -> bool:
    """Tell whether there is one GPU; false as long as nothing was seen."""
    counts = (
        len(matrix.gpus) if matrix else 0,
        len(pci.gpus) if pci else 0,
        gpus.listed if gpus else 0,
    )
    return max(counts) == 1


def _all_nvlink(matrix: Topology | None) -> bool:
    return bool(matrix and matrix.cells) and all(
        cell.startswith("NV") for cell in (matrix.cells if matrix else {}).values()
    )
