"""NVLink: all links up, all pairs joined, no errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.checks.logs import nothing
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.expectations.driver_tables import xid, xids
from qwenhost.expectations.gpu_limits import nvlink_error_limits
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.kernel_log import KernelEvent, KernelEvents
from qwenhost.facts.link_errors import LinkErrors
from qwenhost.facts.nvlink import GpuLinks, NvLinks
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_hardware

HOST = "host"

CAUSES = (*DRIVER_ANSWERS, "gpu.on-bus", "gpu.count", "fabric.running", "fabric.switches")
"""What explains that GPUs are not joined."""


@check(
    "nvlink.links",
    remedy=by_hardware("Reset the GPUs or reboot; if the link stays down, service baseboard, board or bridge."),
    consequence_of=CAUSES,
)
def links(nvlinks: NvLinks, gpus: Gpus | None, want: Expectations) -> Iterator[Judgement]:
    """Every NVLink that the product has is up.

    With links down, tensor parallel traffic is squeezed through fewer links or through PCIe: it works,
    slowly. A single GPU needs none, MIG switches them off, and PCIe cards have them only where bridges
    are fitted.
    """
    if len(nvlinks.gpus) == 1 and nvlinks.gpus[0].index >= 0:
        yield skip(HOST, "one GPU")
        return
    most = max((len(gpu.up) for gpu in nvlinks.gpus), default=0)
    for gpu in nvlinks.gpus:
        if gpu.silence == "mig" or _in_mig(gpu.index, gpus):
            yield skip(gpu.subject, "MIG is on")
        elif (
            want.sku
            and want.sku.nvlink_links is not None
            and (not bridged_form(want) or not want.sku.nvlink_links)
        ):
            yield _against(gpu, want.sku.nvlink_links, want.sku.origin, bool(gpus and gpus.virtual))
        elif want.sku and bridged_form(want) and _declared(gpu.index, want):
            yield _against(gpu, want.sku.nvlink_links or most, "inventory: bridged pairs", False)
        else:
            yield _against_peers(gpu, most, want)


def bridged_form(want: Expectations) -> bool:
    """Tell whether it is a card, which has NVLink only where bridges are fitted."""
    return want.sku is not None and not want.sku.form.startswith("sxm")


def _declared(index: int, want: Expectations) -> bool:
    return any(index in pair for pair in want.bridged_pairs)


def _in_mig(index: int, gpus: Gpus | None) -> bool:
    return any(gpu.index == index and bool(gpu.mig) for gpu in gpus.gpus) if gpus else False


def _against(gpu: GpuLinks, expected: int, origin: str, virtual: bool) -> Judgement:
    if expected == 0:
        return skip(gpu.subject, "the product has no NVLink")
    return judged(
        gpu.subject,
        len(gpu.up) == expected,
        observed=_told(gpu),
        expected=f"{expected} links up",
        otherwise=Verdict.WARN if virtual and not gpu.links else Verdict.FAIL,
        origin=origin,
    )


def _against_peers(gpu: GpuLinks, most: int, want: Expectations) -> Judgement:
    """Judge without a product's figure: by the links that the GPU lists itself, and by its peers."""
    if not gpu.up and (bridged_form(want) or (most == 0 and "SXM" not in gpu.name)):
        return note(gpu.subject, f"{_told(gpu)}: no bridge, or none in use")
    lacking = bool(gpu.down) or len(gpu.up) < most
    worst = Verdict.WARN if bridged_form(want) else Verdict.FAIL
    return judged(
        gpu.subject,
        not lacking and most > 0,
        observed=_told(gpu),
        expected=f"{most} links up, as its peers",
        otherwise=worst,
    )


def _told(gpu: GpuLinks) -> str:
    if not gpu.links:
        return gpu.silence
    down = f", down: {_ranges(gpu.down)}" if gpu.down else ""
    return f"{len(gpu.up)} of {len(gpu.links)} links up{down}"


def _ranges(numbers: tuple[int, ...]) -> str:
    """Return numbers as ranges: 0-3, 8."""
    parts = list[list[int]]()
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


@check(
    "nvlink.errors",
    remedy=by_hand("Reset the GPUs of that link and restart the fabric manager; if it returns, service the link."),
    consequence_of=("fabric.switch-errors",),
)
def errors(kernel: KernelEvents | None, counters: LinkErrors | None) -> Iterator[Judgement]:
    """No GPU reports an error of its NVLinks.

    A link with errors replays or goes down; jobs that use it die with NCCL errors. On switch systems all
    GPUs are hit. The counters run since the driver was loaded: what counts is whether they grow.
    """
    told = {number for number, meaning in xids().items() if meaning.told_by == "nvlink.errors"}
    seen = dict[tuple[str, str], list[KernelEvent]]()
    for event in kernel.xids(*told) if kernel else ():
        seen.setdefault((event.bus_id, _link(event.text)), []).append(event)
    for (where, link), events in seen.items():
        yield _error(where, link, events)
    if counters:
        yield from (_counted(counters, place, found) for place, found in counters.counts.items())
    if seen:
        return
    if counters and not counters.counts and (kernel is None or kernel.cut):
        yield Judgement(HOST, Verdict.PASS, f"no error counted on {len(counters.asked)} GPUs")
    elif kernel:
        yield nothing("no NVLink error in the kernel log", cut=kernel.cut)


def _counted(counters: LinkErrors, place: tuple[int, int], found: Mapping[str, int]) -> Judgement:
    limits, (gpu, link) = nvlink_error_limits(), place
    many = [name for name, count in found.items() if name in limits and count >= limits[name]]
    subject = f"gpu{gpu} {counters.bus_ids.get(gpu, '')}".rstrip() + (f" link {link}" if link >= 0 else "")
    told = ", ".join(f"{name} errors {count}" for name, count in found.items())
    verdict = Verdict.WARN if many else Verdict.NOTE
    return Judgement(subject, verdict, f"{told} since load", "none", remedy=_WATCH)


_WATCH = by_hand(
    "Read nvidia-smi nvlink -e again after a job: if they grow, reset these GPUs, then have the link serviced."
)


def _error(where: str, link: str, events: list[KernelEvent]) -> Judgement:
    event = events[-1]
    subject = f"gpu {where}{f' link {link}' if link else ''}"
    observed = f"Xid {event.number} x{len(events)}"
    return Judgement(subject, xid(event.number).verdict, observed, "none", evidence=event.text)


def _link(text: str) -> str:
    found = re.search(r"\blink (\d+)", text, re.IGNORECASE)
    return found[1] if found else ""
