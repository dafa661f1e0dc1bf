"""Errors on the PCIe bus: those that the kernel logged, and those that devices counted."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note
from qwenhost.checks.logs import nothing
from qwenhost.expectations.pcie import PATH, corrected_errors
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.pcie_errors import Counted, PcieErrors
from qwenhost.records.finding import Verdict, by_hardware


@check(
    "pcie.aer",
    remedy=by_hardware("Reseat the device below that port and its riser; watch whether the errors go on."),
)
def aer(kernel: KernelEvents | None, errors: PcieErrors | None, pci: PciDevices | None) -> Iterator[Judgement]:
    """The PCIe bus reported no errors on the way to a GPU.

    Corrected errors that repeat come from a bad contact, riser or retimer, and often announce a GPU that
    falls off the bus. Uncorrected ones lose data.
    """
    events = dict[str, list[str]]()
    for event in kernel.of("aer") if kernel else ():
        events.setdefault(event.bus_id, []).append(event.text)
    for where, lines in events.items():
        yield _logged(where, lines, _leads_to_gpu(where, pci))
    counted = [judgement for judgement in _counted(errors, pci) if judgement.subject[-12:] not in events]
    yield from counted
    if events or counted:
        return
    if errors and errors.counted and (kernel is None or kernel.cut):
        yield Judgement("host", Verdict.PASS, f"no error counted by {len(errors.counted)} devices")
    elif kernel:
        yield nothing("no PCIe error in the kernel log", cut=kernel.cut)


def _leads_to_gpu(where: str, pci: PciDevices | None) -> bool:
    """Tell whether a GPU is at or below the device; true as long as nothing shows the contrary."""
    if pci is None or pci.at(where) is None or not any(device.upstream for device in pci.gpus):
        return True
    return any(where in (gpu.bus_id, *(port.bus_id for port in pci.above(gpu))) for gpu in pci.gpus)


def _logged(where: str, lines: list[str], concerns_gpu: bool) -> Judgement:
    received = [line for line in lines if "received" in line]
    fatal = [line for line in lines if "Uncorrect" in line or "Fatal" in line]
    repeated = len(received or lines) > 1
    verdict = Verdict.FAIL if fatal else Verdict.WARN if repeated else Verdict.NOTE
    return Judgement(
        f"port {where}" if where else "host",
        verdict if concerns_gpu else Verdict.NOTE,
        f"{len(received or lines)} x {'uncorrected' if fatal else 'corrected'} error",
        "none",
        evidence=(fatal or lines)[0],
    )


def _counted(errors: PcieErrors | None, pci: PciDevices | None) -> Iterator[Judgement]:
    """Judge the counters of GPUs and of the ports above them; other devices' are not our story."""
    ours = {gpu.bus_id for gpu in pci.gpus} if pci else set()
    ours |= {port.bus_id for gpu in pci.gpus for port in pci.above(gpu)} if pci else set()
    for where, count in errors.counted.items() if errors else ():
        if where in ours and (count.fatal or count.nonfatal or count.correctable):
            yield _count(where, count)
    for where, names in errors.standing.items() if errors else ():
        if where in ours and names:
            yield note(
                f"device {where}",
                f"status bits {', '.join(names)}: such an error was met since they were last cleared",
            )


def _count(where: str, count: Counted) -> Judgement:
    told = f"{count.correctable} corrected, {count.nonfatal} not corrected, {count.fatal} fatal since the start"
    loud = count.fatal or count.correctable >= corrected_errors()
    origin = f"data/{PATH}: corrected_errors"
    return Judgement(f"device {where}", Verdict.WARN if loud else Verdict.NOTE, told, "none", origin=origin)
