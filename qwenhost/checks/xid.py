"""The errors (Xids) that the driver reported of each GPU."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check
from qwenhost.expectations.driver_tables import xid
from qwenhost.facts.kernel_log import KernelEvent, KernelEvents
from qwenhost.records.finding import Verdict, by_hand

HOST = "host"


@check("gpu.xid", remedy=by_hand("Look the Xid up with its line, and follow what NVIDIA's catalog asks for."))
def xids(kernel: KernelEvents) -> Iterator[Judgement]:
    """The driver reported no error (Xid) that still stands.

    Each Xid is one class of fault of program, board or link. Repeats are told once; what a later reset,
    module load or boot settled is left out; those that have a check of their own are told there.
    """
    groups = dict[tuple[str, int], list[KernelEvent]]()
    for event in kernel.xids():
        groups.setdefault((event.bus_id, event.number), []).append(event)
    for (where, number), events in groups.items():
        yield _xid(where, number, events)
    if not groups:
        yield Judgement(HOST, Verdict.PASS, "no Xid stands")


def _xid(where: str, number: int, events: list[KernelEvent]) -> Judgement:
    meaning = xid(number)
    told = f", see {meaning.told_by}" if meaning.told_by else ""
    return Judgement(
        f"gpu {where}" if where else "a gpu",
        Verdict.NOTE if meaning.told_by else meaning.verdict,
        f"Xid {number} x{len(events)}: {meaning.meaning}{told}",
        "none",
        evidence=events[0].text,
        remedy=meaning.remedy,
    )
