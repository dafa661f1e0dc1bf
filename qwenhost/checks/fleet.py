"""Is a host like its peers, where several are examined at once, and a GPU like the others of its host?"""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.expectations.peers import majorities
from qwenhost.expectations.skus import by_device_id
from qwenhost.facts.board import Board
from qwenhost.facts.driver import DriverVersions
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.kernels import RunningKernel
from qwenhost.facts.memory import Memory
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.traits import MIXED, PRODUCT, Traits, of_driver, of_firmware, of_hardware, of_kernel
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_firmware, by_hand, by_hardware
from qwenhost.records.peers import Peers

ALONE = "fewer than three hosts of one product in this run, or no clear majority among them"


def _has_peers(want: Expectations) -> bool:
    return bool(want.peers)


@check(
    "fleet.driver",
    remedy=by_hand("Bring the host to the driver and kernel of its peers, or finish the update on those."),
    applies=_has_peers,
    skipped=ALONE,
    consequence_of=DRIVER_ANSWERS,
)
def driver(
    versions: DriverVersions | None, kernel: RunningKernel | None, want: Expectations
) -> Iterator[Judgement]:
    """The host runs the driver and the kernel that its peers run.

    A host that an update missed fails in its own way, and a job over several hosts runs on two versions of
    the driver. It is also the sign of a hold or a repository that only this host has.
    """
    yield from _alike(of_driver(versions), want, Verdict.WARN)
    yield from _alike(of_kernel(kernel), want, Verdict.NOTE)


@check(
    "fleet.firmware",
    remedy=by_firmware("Ask the system's vendor for the release that the peers carry, in the next window."),
    applies=_has_peers,
    skipped=ALONE,
    consequence_of=DRIVER_ANSWERS,
)
def firmware(gpus: Gpus | None, board: Board | None, want: Expectations) -> Iterator[Judgement]:
    """GPUs and mainboard carry the firmware that the peers' carry.

    Another VBIOS means other clocks, power and error handling; another BIOS other defaults for PCIe, NUMA
    and power. Differences come in with replaced parts, and explain a host that is slower without a fault.
    """
    yield from _alike(of_firmware(gpus, board), want, Verdict.NOTE)


@check(
    "fleet.hardware",
    remedy=by_hardware("Compare the host with what was ordered; a part that is missing or narrow is told above."),
    applies=_has_peers,
    skipped=ALONE,
    consequence_of=(*DRIVER_ANSWERS, "gpu.count", "gpu.on-bus", "pcie.link-width"),
)
def hardware(
    gpus: Gpus | None, pci: PciDevices | None, memory: Memory | None, board: Board | None, want: Expectations
) -> Iterator[Judgement]:
    """The host has the machine, boards, memory and lanes that its peers have.

    Where no product or count is declared, the peers are all there is to tell that a board is missing, that
    a memory module failed, or that a host is of another kind than its inventory group says. Hosts with GPUs of
    another product are named, and compared among themselves.
    """
    own = of_hardware(gpus, pci, memory, board)
    yield from _alike({name: value for name, value in own.items() if name != PRODUCT}, want, Verdict.WARN)
    most = want.peers.get(PRODUCT)
    if most and PRODUCT in own:
        yield judged(
            PRODUCT,
            own[PRODUCT] == most.value,
            observed=_product(own[PRODUCT]),
            expected=_product(most.value),
            otherwise=Verdict.NOTE,
            origin=most.origin,
        )


def _product(device_id: str) -> str:
    """Return the board's name, where its PCI device id is known."""
    sku = by_device_id(device_id)
    return sku.product if sku else device_id


def _alike(own: Traits, want: Expectations, otherwise: Verdict) -> Iterator[Judgement]:
    """Hold each trait that is seen and that most peers agree on against them."""
    for trait, value in own.items():
        most = want.peers.get(trait)
        if most is None:
            yield skip(trait, "the peers do not agree on it")
        elif MIXED in value:
            yield skip(trait, "differs within the host, which firmware.uniform and gpu.uniform tell")
        else:
            yield judged(
                trait,
                value == most.value,
                observed=value,
                expected=most.value,
                otherwise=otherwise,
                origin=most.origin,
            )


@check(
    "gpu.uniform",
    remedy=by_hand("Compare nvidia-smi -q -i GPU with that of a sister GPU; ask the vendor where boards differ."),
    consequence_of=DRIVER_ANSWERS,
)
def uniform(gpus: Gpus, want: Expectations) -> Iterator[Judgement]:
    """The GPUs of one host are alike in memory, default power limit, default clock and lanes.

    Tensor parallel work goes at the pace of the slowest GPU and fits the smallest one, so that one board of
    another make slows down all. A board is held against the others of its product; what a check of its own
    holds against a figure is left to that one.
    """
    kinds = dict[tuple[str, bool], list[Gpu]]()
    for gpu in gpus.answering:
        kinds.setdefault((gpu.device_id or gpu.name or "", bool(gpu.mig)), []).append(gpu)
    for boards in kinds.values():
        values = [_values(board, want) for board in boards]
        most = majorities(values)
        for board, own in zip(boards, values, strict=True):
            yield _like_the_others(board, own, most)


def _values(gpu: Gpu, want: Expectations) -> dict[str, str]:
    """Return what no other check holds against a figure of its own."""
    known_width = want.sku is not None and want.sku.pcie_width is not None
    narrow = bool(gpu.width_current and gpu.width_max and gpu.width_current < gpu.width_max)
    told = {
        "memory": gpu.memory_total_mib and f"{gpu.memory_total_mib} MiB",
        "default power limit": gpu.power_default_watts and f"{gpu.power_default_watts} W",
        "power limit": None if gpu.power_default_watts else gpu.power_limit_watts and f"{gpu.power_limit_watts} W",
        "default clock": gpu.clock_default_mhz and f"{gpu.clock_default_mhz} MHz",
        "lanes": None if known_width or narrow else gpu.width_current and f"x{gpu.width_current}",
    }
    return {name: value for name, value in told.items() if value}


def _like_the_others(gpu: Gpu, own: dict[str, str], most: Peers) -> Judgement:
    odd = [name for name in own if name in most and own[name] != most[name].value]
    if not set(own) & set(most):
        return skip(gpu.subject, "fewer than three GPUs of its kind, or no clear majority among them")
    return judged(
        gpu.subject,
        not odd,
        observed=", ".join(f"{name} {own[name]}" for name in odd or own),
        expected=", ".join(f"{name} {most[name].value}" for name in odd),
        otherwise=Verdict.WARN,
        origin="the other GPUs of this host" if odd else "",
    )
