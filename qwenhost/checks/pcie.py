"""The PCIe link of each GPU: its width, its speed, what lies above it, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qwenhost.checks.declare import Judgement, check, note
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.facts.bars import UnassignedBars
from qwenhost.facts.driver import DriverAnswer
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.records.desired import Expectations, Sku
from qwenhost.records.finding import Remedy, Verdict, by_firmware, by_hardware

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s -> PCIe generation (PCI Express Base Specification)."""

_DESKTOP = "GeForce"

_RESEAT = by_hardware("Reseat the board and its riser; if it trains narrow in another slot, too, replace it.")
_SLOT = by_hardware(
    "Move the board to a slot with all lanes, or undo the slot's bifurcation in the firmware setup."
)


@dataclass(frozen=True)
class _Link:
    """One GPU as driver and bus see it together."""

    subject: str
    gpu: Gpu | None
    device: PciDevice | None

    @property
    def width(self) -> int | None:
        """The narrowest width that was seen."""
        seen = (
            self.gpu.width_current if self.gpu else None,
            self.device.width_current if self.device else None,
        )
        return min((width for width in seen if width), default=None)

    @property
    def width_max(self) -> int | None:
        """What card and slot could do; the bus knows the card, the driver the lesser of both."""
        seen = (self.gpu.width_max if self.gpu else None, self.device.width_max if self.device else None)
        return max((width for width in seen if width), default=None)


def _links(gpus: Gpus | None, pci: PciDevices | None) -> list[_Link]:
    known = {gpu.bus_id or gpu.subject: gpu for gpu in gpus.answering} if gpus else {}
    on_bus = {device.bus_id: device for device in pci.gpus if not device.unreachable} if pci else {}
    return [
        _Link(known[key].subject if key in known else f"gpu {key}", known.get(key), on_bus.get(key))
        for key in dict.fromkeys([*known, *on_bus])
    ]


def _virtual(gpus: Gpus | None, pci: PciDevices | None) -> bool:
    return bool((gpus and gpus.virtual) or (pci and pci.virtual))


@check("pcie.link-width", remedy=_RESEAT, consequence_of=DRIVER_ANSWERS)
def link_width(gpus: Gpus | None, pci: PciDevices | None, want: Expectations) -> Iterator[Judgement]:
    """Each GPU has all its PCIe lanes.

    A board that trains with half its lanes loads weights and offloads at half the rate, and nothing else
    tells. The product's own width counts: what the driver calls maximum is already cut down to what the
    slot can do.
    """
    virtual = _virtual(gpus, pci)
    for link in _links(gpus, pci):
        if link.width is not None:
            yield _width(link, pci, want, virtual)
    for device in pci.devices if pci else ():
        if _narrow(device) and not device.is_gpu and not device.is_bridge:
            yield note(
                f"{device.bus_id} (not a GPU)",
                f"x{device.width_current}",
                expected=f"x{device.width_max}",
                evidence=device.name or "",
            )


def _narrow(device: PciDevice) -> bool:
    return bool(device.width_current and device.width_max and device.width_current < device.width_max)


def _width(link: _Link, pci: PciDevices | None, want: Expectations, virtual: bool) -> Judgement:
    sku, width = want.sku, link.width or 0
    expected = (sku.pcie_width if sku else None) or link.width_max
    if expected is None:
        return Judgement(link.subject, Verdict.UNKNOWN, f"x{width}", "the product's width, which is not known")
    place, remedy = _place(link, pci, expected)
    return Judgement(
        link.subject,
        Verdict.PASS if width >= expected else _if_narrow(link, sku, virtual),
        f"x{width}" if width >= expected else f"x{width} ({place})",
        f"x{expected}",
        origin=sku.origin if sku else "",
        remedy=remedy,
    )


def _if_narrow(link: _Link, sku: Sku | None, virtual: bool) -> Verdict:
    """Return how bad it is: of a board that is not known, the driver's own maximum tells as much as it can.

    Desktop cards share their slot's lanes by design, and the driver then still prints the card's.
    """
    if sku and sku.pcie_width:
        return Verdict.NOTE if virtual else Verdict.FAIL
    driver, bus = link.gpu, link.device
    name = (driver and driver.name) or (bus and bus.name)
    most = (driver and driver.width_max) or (bus and bus.width_max)
    if virtual or sku or (name and _DESKTOP in name) or not most or (link.width or 0) >= most:
        return Verdict.NOTE
    return Verdict.FAIL if name else Verdict.WARN


def _place(link: _Link, pci: PciDevices | None, expected: int) -> tuple[str, Remedy]:
    """Tell card, slot and port apart, as far as it was seen."""
    above = pci.at(link.device.upstream) if pci and link.device else None
    if above and above.width_max and above.width_max < expected:
        return f"the port above, {above.bus_id}, has x{above.width_max}", _SLOT
    if above and above.width_max:
        return f"the port above, {above.bus_id}, could do x{above.width_max}", _RESEAT
    if link.gpu and link.gpu.width_max and link.gpu.width_max < expected:
        return f"card and slot together do x{link.gpu.width_max}", _SLOT
    return "port above not seen", _RESEAT


@check(
    "pcie.link-speed",
    remedy=by_firmware("Set the slot to its full speed in the firmware setup; then check riser and retimer."),
    consequence_of=DRIVER_ANSWERS,
)
def link_speed(gpus: Gpus | None, pci: PciDevices | None, want: Expectations) -> Iterator[Judgement]:
    """Each GPU's PCIe link runs at full speed while the GPU works.

    An idle GPU may slow its link down to save power, so a lower generation counts only under load; what
    card and slot can do together counts always.
    """
    virtual = _virtual(gpus, pci)
    for link in _links(gpus, pci):
        if link.gpu and link.gpu.generation_current:
            yield _speed(link.subject, link.gpu, want, virtual)
        elif link.device and link.device.speed_current and link.device.speed_max:
            yield _bus_speed(link.subject, link.device, pci, want)


def _speed(subject: str, gpu: Gpu, want: Expectations, virtual: bool) -> Judgement:
    best = (want.sku.pcie_generation if want.sku else None) or gpu.generation_card or gpu.generation_max
    now, together = gpu.generation_current or 0, gpu.generation_max or best
    if best is None or together is None or now >= best:
        return Judgement(subject, Verdict.PASS, f"generation {now}", f"generation {best or now}")
    known = want.sku is not None and not virtual
    if together < best and now >= together:
        verdict = Verdict.WARN if known else Verdict.NOTE
        return Judgement(subject, verdict, f"generation {now}, slot limits it", f"generation {best}")
    working = bool(gpu.utilization_percent) and gpu.performance_state in (0, None)
    return Judgement(
        subject,
        Verdict.WARN if working and known else Verdict.NOTE,
        f"generation {now} " + (f"at {gpu.utilization_percent} % load" if working else "while idle"),
        f"generation {together}",
    )


def _bus_speed(subject: str, device: PciDevice, pci: PciDevices | None, want: Expectations) -> Judgement:
    now, best = device.speed_current or 0, device.speed_max or 0
    full = now >= best
    above = pci.at(device.upstream) if pci else None
    if above and above.speed_max and now == above.speed_max < best:
        seen = f"{now:g} GT/s, all that the port above, {above.bus_id}, can do"
        known = want.sku is not None and not (pci and pci.virtual)
        return Judgement(subject, Verdict.WARN if known else Verdict.NOTE, seen, f"{best:g} GT/s")
    seen = f"{now:g} GT/s (generation {_GENERATIONS.get(now, '?')})" + ("" if full else ", load not seen")
    return Judgement(subject, Verdict.PASS if full else Verdict.NOTE, seen, f"{best:g} GT/s")


@check(
    "pcie.bars",
    remedy=by_firmware(
        "Switch on decoding above 4 GiB and the largest MMIO window in the firmware setup (VM: too)."
    ),
)
def bars(
    gpus: Gpus | None,
    kernel: KernelEvents | None,
    answer: DriverAnswer | None,
    lacking: UnassignedBars | None,
    pci: PciDevices | None,
) -> Iterator[Judgement]:
    """The firmware gave each GPU the address space that it asks for.

    Without it the driver cannot start the GPU, or peers and network cards reach only a part of its memory.
    """
    told = {event.bus_id for event in kernel.of("bar-invalid")} if kernel else set()
    for where, number, line in _lacking(lacking, gpus, pci):
        if where not in told:
            yield Judgement(f"gpu {where}", Verdict.FAIL, f"BAR {number} has no address", "one", evidence=line)
    for event in kernel.of("bar-invalid") if kernel else ():
        yield Judgement(f"gpu {event.bus_id}", Verdict.FAIL, "a region is invalid", "valid", evidence=event.text)
    for gpu in gpus.answering if gpus else ():
        if gpu.bar1_total_mib is not None and gpu.memory_total_mib is not None:
            yield _bar1(gpu, gpu.bar1_total_mib, gpu.memory_total_mib)
    if not (gpus and gpus.answering) and not (kernel and kernel.of("bar-invalid")):
        refused = answer is not None and answer.state == "mismatch"
        told_by = "driver.versions-agree" if refused else "driver.present"
        yield Judgement("host", Verdict.UNKNOWN, "no GPU answered", consequence_of=told_by)


def _lacking(
    lacking: UnassignedBars | None, gpus: Gpus | None, pci: PciDevices | None
) -> Iterator[tuple[str, int, str]]:
    """Yield the windows that GPUs lack: of one that reports its BAR1 the kernel's first words are history."""
    well = {gpu.bus_id for gpu in gpus.answering if gpu.bar1_total_mib} if gpus else set()
    others = {device.bus_id for device in pci.devices if not device.is_gpu} if pci else set()
    for line in lacking.lines if lacking else ():
        if line[0] not in well | others:
            yield line


def _bar1(gpu: Gpu, bar1_mib: int, memory_mib: int) -> Judgement:
    whole = bar1_mib >= memory_mib
    observed = f"BAR1 {bar1_mib} MiB"
    return Judgement(gpu.subject, Verdict.PASS if whole else Verdict.NOTE, observed, f"{memory_mib} MiB or more")
