"""NVLink between GPUs, as the matrix shows it: whole boards, bridged cards, and machines that hide it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.checks.nvlink import CAUSES, HOST, bridged_form
from qwenhost.checks.virtual import virtual
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.iommu import Iommu
from qwenhost.facts.mig import MigInstances
from qwenhost.facts.nvlink import NvLinks
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.topology import Topology
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand


@check(
    "nvlink.topology",
    remedy=by_hand("Look at nvlink.links and the fabric manager's log; restart it, then reboot."),
    consequence_of=(*CAUSES, "nvlink.links"),
)
def topology(
    matrix: Topology,
    gpus: Gpus | None,
    nvlinks: NvLinks | None,
    pci: PciDevices | None,
    iommu: Iommu | None,
    parted: MigInstances | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """All GPU pairs that NVLink should join are joined, with all their links.

    Where a pair shows SYS, NODE, PHB, PXB or PIX in place of NV12, NCCL goes through PCIe and host memory.
    Virtual machines may show all pairs alike while the links are up: NCCL then needs a topology file.
    """
    expected = _expected_cell(matrix, want)
    if len(matrix.gpus) < 2:
        yield skip(HOST, "one GPU")
    elif (gpus and any(gpu.mig for gpu in gpus.gpus)) or (parted and parted.devices):
        yield skip(HOST, "MIG is on")
    elif want.sku and want.sku.nvlink_links == 0:
        yield skip(HOST, "the product has no NVLink")
    elif bridged_form(want):
        yield from _bridges(matrix, want) if want.bridged_pairs else _cards(matrix, want)
    elif _hidden(matrix, expected, nvlinks, virtual(pci, gpus, iommu)):
        yield _flattened(matrix, nvlinks, expected or "NVLink")
    elif expected is None and _in_pairs(matrix):
        yield from _cards(matrix, want)
    else:
        yield from _mesh(matrix, expected, _on_baseboard(gpus, want))


def _in_pairs(matrix: Topology) -> bool:
    """Tell whether NVLink joins each GPU to one other at most, as bridges do, and some."""
    partners = Counter(one for (one, _), cell in matrix.cells.items() if cell.startswith("NV"))
    return bool(partners) and len(matrix.gpus) > 2 and max(partners.values()) == 1


def _on_baseboard(gpus: Gpus | None, want: Expectations) -> bool:
    """Tell whether the GPUs sit on a board that joins them, by the product or, where it is not known, its name."""
    if want.sku:
        return want.sku.form.startswith("sxm")
    return bool(gpus and gpus.gpus and all("SXM" in (gpu.name or "") for gpu in gpus.gpus))


def _expected_cell(matrix: Topology, want: Expectations) -> str | None:
    """Return the product's cell for this many GPUs, or, without one, what at least half of the pairs have."""
    declared = want.sku.nvlink_matrix.get(want.gpus or len(matrix.gpus)) if want.sku else None
    if declared or not matrix.cells:
        return declared
    cell, times = Counter(matrix.cells.values()).most_common(1)[0]
    return cell if cell.startswith("NV") and times * 2 >= len(matrix.cells) else None


def _bridges(matrix: Topology, want: Expectations) -> Iterator[Judgement]:
    full = _full_bridge(matrix, want)
    for one, two in want.bridged_pairs:
        cell = matrix.cells.get((one, two))
        held = None if cell is None else cell == full
        yield judged(
            f"gpu{one}-gpu{two}", held, observed=cell or "", expected=full, origin="inventory: bridged pairs"
        )


def _full_bridge(matrix: Topology, want: Expectations) -> str:
    """Return the cell of a pair with all its bridges: the product's, or the best that was seen."""
    if want.sku and want.sku.nvlink_links:
        return f"NV{want.sku.nvlink_links}"
    return max((cell for cell in matrix.cells.values() if cell.startswith("NV")), key=_links, default="NV12")


def _links(cell: str) -> int:
    return int(cell.removeprefix("NV"))


def _cards(matrix: Topology, want: Expectations) -> Iterator[Judgement]:
    """Judge cards by the bridges that show: a pair with fewer links lacks one, a card without may be meant so."""
    full = _full_bridge(matrix, want)
    joined = {pair: cell for pair, cell in matrix.cells.items() if cell.startswith("NV") and pair[0] < pair[1]}
    for (one, two), cell in joined.items():
        yield judged(
            f"gpu{one}-gpu{two}",
            cell == full,
            observed=f"{cell}, bridged",
            expected=f"{full}, with all bridges",
            otherwise=Verdict.WARN,
        )
    single = [f"gpu{gpu}" for gpu in matrix.gpus if not any(gpu in pair for pair in joined)]
    if not joined:
        yield note(HOST, "PCIe only: no bridge is fitted, or none is in use")
    elif single:
        yield note(", ".join(single), "no bridge", expected="declared in the inventory, if one should be there")


def _hidden(matrix: Topology, expected: str | None, nvlinks: NvLinks | None, is_virtual: bool) -> bool:
    """Tell whether the matrix shows no NVLink at all where it is expected, and something else explains it."""
    shown = any(cell.startswith("NV") for cell in matrix.cells.values())
    return not shown and (bool(expected) or _up(nvlinks)) and (is_virtual or _up(nvlinks))


def _up(nvlinks: NvLinks | None) -> bool:
    return bool(nvlinks and any(gpu.up for gpu in nvlinks.gpus))


def _flattened(matrix: Topology, nvlinks: NvLinks | None, expected: str) -> Judgement:
    kinds = ", ".join(sorted(set(matrix.cells.values())))
    if _up(nvlinks):
        return note(HOST, f"{kinds}, as a hypervisor shows it: the links themselves are up", expected=expected)
    seen = "whether its links are up was not seen" if nvlinks is None else "no link is up"
    return Judgement(HOST, Verdict.WARN, f"{kinds} between all GPUs of a virtual machine; {seen}", expected)


def _mesh(matrix: Topology, expected: str | None, on_baseboard: bool) -> Iterator[Judgement]:
    if expected is None:
        joined = sorted({cell for cell in matrix.cells.values() if cell.startswith("NV")})
        kinds = ", ".join(joined) or "PCIe only"
        worst = Verdict.WARN if on_baseboard and not joined else Verdict.NOTE
        yield Judgement(HOST, worst, kinds, "no expectation for this product and GPU count")
        return
    wrong = {pair: cell for pair, cell in matrix.cells.items() if cell != expected and pair[0] < pair[1]}
    counts = Counter(gpu for pair in wrong for gpu in pair)
    alone = [gpu for gpu, times in counts.items() if times == len(matrix.gpus) - 1]
    for gpu in sorted(alone):
        cells = ", ".join(sorted(set(matrix.peers(gpu).values())))
        yield Judgement(f"gpu{gpu} with every peer", Verdict.FAIL, cells, expected)
    for (one, two), cell in wrong.items():
        if one not in alone and two not in alone:
            yield Judgement(f"gpu{one}-gpu{two}", Verdict.FAIL, cell, expected)
    if not wrong:
        yield Judgement(HOST, Verdict.PASS, f"{expected} between all {len(matrix.gpus)} GPUs", expected)
