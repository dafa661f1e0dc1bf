"""The ports between each GPU and the processor: a switch's own link may be narrow while its GPUs' are whole."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hardware

_TRAINED = by_hardware(
    "Shut the host down and reseat that switch's or riser's connector; if it trains narrow again, service it."
)
_BUILT = by_hardware(
    "Move the GPUs to slots with all lanes, or undo the port's bifurcation in the firmware setup."
)


@check("pcie.upstream", remedy=_TRAINED, consequence_of=("pcie.link-width",))
def upstream(pci: PciDevices, gpus: Gpus | None, want: Expectations) -> Iterator[Judgement]:
    """Every port between a GPU and the processor has as many lanes as the GPU.

    Behind a PCIe switch the GPU's own link may be whole while the switch's link to the processor is not:
    then all GPUs below share what is left, and none of them shows it.
    """
    chains = {gpu: tuple(pci.above(gpu)) for gpu in pci.gpus}
    mild = pci.virtual or bool(gpus and gpus.virtual)
    yield from _narrow_ports(chains, want, mild)
    for gpu, ports in chains.items():
        if not ports and (gpu.at_root or mild):
            yield skip(_subject(gpu), "no port above it is to be seen, as in a virtual machine")
        elif _lanes(gpu, want) is None and ports:
            yield skip(_subject(gpu), "no product with a known width")
        elif (
            ports and all(_whole(port, gpu, want) for port in ports) and any(port.width_current for port in ports)
        ):
            yield Judgement(_subject(gpu), Verdict.PASS, "all ports above it are whole")
    if not chains and pci.complete:
        yield skip("host", "no GPU on the bus")


def _subject(gpu: PciDevice) -> str:
    return f"gpu {gpu.bus_id}"


def _lanes(gpu: PciDevice, want: Expectations) -> int | None:
    return (want.sku.pcie_width if want.sku else None) or gpu.width_max


def _whole(port: PciDevice, gpu: PciDevice, want: Expectations) -> bool:
    return port.width_current is None or port.width_current >= (_lanes(gpu, want) or 0)


def _narrow_ports(
    chains: dict[PciDevice, tuple[PciDevice, ...]], want: Expectations, mild: bool
) -> Iterator[Judgement]:
    """Tell each narrow port once, with the GPUs below it."""
    below = dict[PciDevice, list[PciDevice]]()
    for gpu, ports in chains.items():
        for port in ports:
            if not _whole(port, gpu, want):
                below.setdefault(port, []).append(gpu)
            elif _slow(port) and port is not ports[0]:
                yield _slowed(port, gpu)
    for port, hit in below.items():
        own_link = len(hit) == 1 and chains[hit[0]][0] is port and not _whole(hit[0], hit[0], want)
        yield skip(_subject(hit[0]), "told by pcie.link-width") if own_link else _narrow(port, hit, want, mild)


def _narrow(port: PciDevice, hit: list[PciDevice], want: Expectations, mild: bool) -> Judgement:
    lanes = _lanes(hit[0], want) or 0
    built = bool(port.width_max and port.width_max < lanes)
    could = f", and can do no more than x{port.width_max}" if built else f" of x{port.width_max or lanes}"
    known = want.sku is not None and want.sku.pcie_width is not None
    return Judgement(
        f"port {port.bus_id} above {', '.join(gpu.bus_id for gpu in hit)}",
        Verdict.WARN if known and not mild else Verdict.NOTE,
        f"x{port.width_current}{could}",
        f"x{lanes}",
        remedy=_BUILT if built else None,
    )


def _slow(port: PciDevice) -> bool:
    """Tell whether a switch's own link runs below what its port can do; a GPU's link may, to save power."""
    return bool(port.speed_current and port.speed_max and port.speed_current < port.speed_max)


def _slowed(port: PciDevice, gpu: PciDevice) -> Judgement:
    seen = f"port {port.bus_id} runs at {port.speed_current:g} GT/s"
    return note(_subject(gpu), seen, expected=f"{port.speed_max:g} GT/s, if what is above can do it")
