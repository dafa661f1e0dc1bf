"""The errors (Xids) that the driver reported of each GPU: one row per GPU and Xid, told once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qwenhost.checks.declare import Judgement, check
from qwenhost.checks.logs import nothing, when
from qwenhost.checks.per_vllm import blamed
from qwenhost.expectations.driver_tables import Xid, recovery, xid
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.kernel_log import KernelEvent, KernelEvents
from qwenhost.facts.slots import PciSlots
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.records.finding import Remedy, Verdict, by_hand

_NAMES_SHOWN = 3

_UUID_SHOWN = 12
"""Characters: GPU- and the first group, enough to find it in nvidia-smi -L."""

_PROGRAM = by_hand(
    "Look for Xids of that minute (journalctl -k); where there is none, or only 13, 31 or 43, it is a fault of the"
    " program: run it again with CUDA_LAUNCH_BLOCKING=1, or with another version."
)

Groups = Mapping[tuple[str, int], Sequence[KernelEvent]]


@check("gpu.xid", remedy=by_hand("Look the Xid up with its line, and follow what NVIDIA's catalog asks for."))
def xids(
    kernel: KernelEvents | None, gpus: Gpus | None, slots: PciSlots | None, runs: VllmRuns | None
) -> Iterator[Judgement]:
    """The driver reported no error (Xid) that still stands.

    Each Xid is one class of fault of program, board or link. Repeats are told once, with the first and
    the last time; what a later reset, module load or boot settled is left out; those that have a check
    of their own are told there.
    """
    groups: dict[tuple[str, int], list[KernelEvent]] = {}
    for event in kernel.xids() if kernel else ():
        groups.setdefault((event.bus_id, event.number), []).append(event)
    places = _places(kernel, gpus, slots) if kernel else {}
    for (where, number), events in groups.items():
        place = places.get(where) or _Place(f"gpu {where}" if where else "a gpu")
        yield _told(place, xid(number), events, groups)
    if kernel and not groups:
        yield nothing("no Xid stands", cut=kernel.cut)
    for subject, cause in () if groups else blamed("gpu.xid", runs):
        observed = f"{cause.observed}; {'no Xid' if kernel else 'the kernel log was not seen'}"
        yield Judgement(subject, Verdict.WARN, observed, "none", evidence=cause.line, remedy=_PROGRAM)


@dataclass(frozen=True)
class _Place:
    """Where a GPU is: as findings name it, as `nvidia-smi -L` does, and as the chassis does."""

    subject: str
    gpu: Gpu | None = None
    uuid: str = ""
    slot: str = ""

    @property
    def details(self) -> str:
        """UUID, shortened, and slot, as far as they were seen."""
        known = [self.uuid[:_UUID_SHOWN], f"slot {self.slot}" if self.slot else ""]
        return ", ".join(filter(None, known))


def _places(kernel: KernelEvents, gpus: Gpus | None, slots: PciSlots | None) -> dict[str, _Place]:
    """Return each GPU that was seen by bus id; a lost one is named by the driver's own line."""
    known = {gpu.bus_id: gpu for gpu in gpus.gpus if gpu.bus_id} if gpus else {}
    named = {event.bus_id: event.text.rpartition(" ")[2] for event in kernel.events if event.kind == "named"}
    return {
        where: _Place(
            known[where].subject if where in known else f"gpu {where}",
            known.get(where),
            (known[where].uuid if where in known else None) or named.get(where, ""),
            slots.names.get(where, "") if slots else "",
        )
        for where in {*known, *named, *(slots.names if slots else ())}
    }


def _told(place: _Place, meaning: Xid, events: Sequence[KernelEvent], groups: Groups) -> Judgement:
    cause = _cause(meaning, events[0].bus_id, groups)
    remark = cause or _remark(meaning, place.gpu, events)
    told = f"see {meaning.told_by}" if meaning.told_by else ""
    parts = (meaning.meaning, remark, told, when(events[0].at, events[-1].at), place.details)
    return Judgement(
        place.subject,
        Verdict.NOTE if meaning.told_by or cause else meaning.verdict,
        f"Xid {meaning.number} x{len(events)}: {', '.join(filter(None, parts))}",
        "none",
        evidence=events[0].text,
        remedy=Remedy() if cause else _remedy(meaning, events, place.gpu),
    )


def _remedy(meaning: Xid, events: Sequence[KernelEvent], gpu: Gpu | None) -> Remedy:
    """Return what to do, with the GPU's own name in the command."""
    asked = recovery(events[-1].text) if meaning.told_by == "gpu.recovery-action" else None
    remedy = asked or meaning.remedy
    name = events[0].bus_id if gpu is None or gpu.index is None else str(gpu.index)
    return replace(remedy, text=remedy.text.replace("-i GPU", f"-i {name}")) if name else remedy


def _cause(meaning: Xid, where: str, groups: Groups) -> str:
    """Name the error that explains a clean-up: of the same GPU, else of any, since programs use several."""
    if not meaning.follows:
        return ""
    others = [(bus, number) for bus, number in groups if not xid(number).follows]
    own = [number for bus, number in others if bus == where]
    if own:
        return f"a consequence of Xid {own[0]}"
    graver = [(bus, number) for bus, number in others if xid(number).verdict is Verdict.FAIL]
    return f"a consequence of Xid {graver[0][1]} of {graver[0][0]}" if graver else ""


def _remark(meaning: Xid, gpu: Gpu | None, events: Sequence[KernelEvent]) -> str:
    """Add what the lines or the driver tell of it: links, the state of the rows, or the programs."""
    if meaning.told_by == "nvlink.errors":
        links = _all(r"\blink\s*(\d+)", events)
        return f"link {', '.join(link.lstrip('0') or '0' for link in links)}" if links else ""
    if meaning.told_by == "memory.row-remap-pending" and gpu and gpu.remap_pending is not None:
        return "still pending" if gpu.remap_pending else "no row waits any more"
    if meaning.told_by == "memory.row-remap-failure" and gpu and gpu.remap_failure is not None:
        return "the driver confirms it" if gpu.remap_failure else "the driver's flag is not set"
    programs = [name for name in _all(r"\bname=([^,]+)", events) if "unknown" not in name]
    more = f" and {len(programs) - _NAMES_SHOWN} more" if len(programs) > _NAMES_SHOWN else ""
    return f"program {', '.join(programs[:_NAMES_SHOWN])}{more}" if programs and not meaning.told_by else ""


def _all(pattern: str, events: Sequence[KernelEvent]) -> list[str]:
    """Return what the pattern found in the lines, once each, in order."""
    return list(dict.fromkeys(word for event in events for word in re.findall(pattern, event.text, re.IGNORECASE)))
