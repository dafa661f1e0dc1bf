"""What the trials of `doctor --trials` reached, against what link and memory can do."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.expectations.trial_floors import ORIGIN, floors
from qwenhost.facts.topology import Topology
from qwenhost.facts.trials import AllReduce, HostCopies, HostCopy, MemoryCopies, MemoryCopy, PeerCopies, PeerCopy
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_hardware

HOST = "host"
NOT_ASKED = "a trial: run only with --trials"


def asked(want: Expectations) -> bool:
    """Trials load the GPUs, so that nobody runs them by the way."""
    return want.trials


@check(
    "pcie.copy-rate",
    remedy=by_hardware(
        "Compare width and speed of the link with its sister GPUs; then check slot, riser and NUMA."
    ),
    applies=asked,
    skipped=NOT_ASKED,
    consequence_of=("pcie.link-width", "pcie.upstream"),
)
def copy_rate(copies: HostCopies, want: Expectations) -> Iterator[Judgement]:
    """Each GPU copies from and to the host's memory at the rate of its link.

    A link may look whole and still lose packets, and a GPU far from the memory that it copies from shows
    nowhere else. Weights and offloaded KV blocks go this way.
    """
    if copies.refused:
        yield skip(HOST, copies.refused)
    for row in copies.rows:
        yield _host_copy(row, want)


def _host_copy(row: HostCopy, want: Expectations) -> Judgement:
    seen = f"{row.to_gpu_gb_per_s:g} GB/s to the GPU, {row.to_host_gb_per_s:g} GB/s back"
    if row.link_width and row.link_speed_gt_per_s:
        seen += f", link x{row.link_width:g} at {row.link_speed_gt_per_s:g} GT/s meanwhile"
    return _against(
        _gpu(row.gpu, row.bus_id),
        min(row.to_gpu_gb_per_s, row.to_host_gb_per_s),
        floors(want.sku).host_copy,
        seen,
    )


@check(
    "memory.copy-rate",
    remedy=by_hand("Look for a thermal or power limit, and for another program on that GPU; then reset it."),
    applies=asked,
    skipped=NOT_ASKED,
    consequence_of=("thermal.slowdown", "power.brake"),
)
def memory_rate(copies: MemoryCopies, want: Expectations) -> Iterator[Judgement]:
    """Each GPU's memory keeps what is written, at the rate of the product.

    Decoding reads all weights for each token, so that the rate of the memory is the rate of generation.
    """
    if copies.refused:
        yield skip(HOST, copies.refused)
    for row in copies.rows:
        yield _memory_copy(row, want)


def _memory_copy(row: MemoryCopy, want: Expectations) -> Judgement:
    subject = _gpu(row.gpu, row.bus_id)
    if not row.intact:
        return Judgement(subject, Verdict.FAIL, "the copy differs from its source", "the same bytes")
    return _against(subject, row.gb_per_s, floors(want.sku).device_memory, f"{row.gb_per_s:g} GB/s")


@check(
    "gpu.peer-copy",
    remedy=by_hand(
        "Set the IOMMU to pass-through (iommu=pt) and switch ACS redirection off; until then NCCL_P2P_DISABLE=1."
    ),
    applies=asked,
    skipped=NOT_ASKED,
    consequence_of=("nvlink.links", "nvlink.topology"),
)
def peer_copy(copies: PeerCopies, topology: Topology | None, want: Expectations) -> Iterator[Judgement]:
    """What one GPU writes into another's memory arrives, at the rate of the way between them.

    Drivers may offer direct access between GPUs whose writes an IOMMU or a PCIe switch then loses: tensor
    parallelism hangs or computes nonsense, and nothing else tells.
    """
    if copies.refused:
        yield skip(HOST, copies.refused)
    elif not copies.rows:
        yield skip(HOST, "one GPU has no peer")
    for row in copies.rows:
        yield _peer_copy(row, topology, want)


def _peer_copy(row: PeerCopy, topology: Topology | None, want: Expectations) -> Judgement:
    subject = f"gpu{row.one} to gpu{row.two}"
    if not row.direct:
        return note(subject, "no direct access")
    if not row.intact or row.gb_per_s is None:
        return Judgement(subject, Verdict.FAIL, "what arrived differs from what was sent", "the same bytes")
    per_link = floors(want.sku).peer_copy_per_link
    cell = topology.cells.get((row.one, row.two), "") if topology else ""
    if not cell.startswith("NV") or per_link is None:
        return Judgement(subject, Verdict.PASS, f"{row.gb_per_s:g} GB/s, intact")
    return _against(subject, row.gb_per_s, per_link * int(cell[2:]), f"{row.gb_per_s:g} GB/s over {cell}, intact")


@check(
    "nccl.all-reduce",
    remedy=by_hand("Run it again with NCCL_DEBUG=INFO and see which way NCCL took between the GPUs."),
    applies=asked,
    skipped=NOT_ASKED,
    consequence_of=("gpu.peer-copy", "nvlink.links", "nvlink.topology", "nccl.environment"),
)
def all_reduce(result: AllReduce, topology: Topology | None, want: Expectations) -> Iterator[Judgement]:
    """NCCL sums a buffer over all GPUs rightly, at the rate of their links.

    Tensor parallelism does this twice per layer.
    """
    if result.refused or result.gpus < 2:
        yield skip(HOST, result.refused or "one GPU has nothing to sum with")
    elif result.right is False:
        yield Judgement(HOST, Verdict.FAIL, "the sum is wrong", "the right sum")
    elif result.right and result.bus_gb_per_s is not None:
        seen = f"{result.bus_gb_per_s:g} GB/s bus rate over {result.gpus} GPUs"
        yield _against(HOST, result.bus_gb_per_s, _reduce_floor(topology, want), seen)


def _reduce_floor(topology: Topology | None, want: Expectations) -> float | None:
    """Return the floor where NVLink joins all pairs; other ways have none."""
    per_link = floors(want.sku).all_reduce_per_link
    cells = list(topology.cells.values()) if topology else []
    if per_link is None or not cells or not all(cell.startswith("NV") for cell in cells):
        return None
    return per_link * min(int(cell[2:]) for cell in cells)


def _against(subject: str, rate: float, floor: float | None, seen: str) -> Judgement:
    """Judge a rate; one without a floor is told as a note."""
    if floor is None:
        return note(subject, seen)
    verdict = Verdict.PASS if rate >= floor else Verdict.WARN
    return Judgement(subject, verdict, seen, f"{floor:.0f} GB/s or more", origin=ORIGIN)


def _gpu(index: int, bus_id: str) -> str:
    return f"gpu{index} {bus_id}"
