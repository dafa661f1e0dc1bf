"""GPU memory: rows that were or could not be remapped, their spares, heat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from qwenhost.checks.declare import Judgement, check, judged, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS, each_outside_mig
from qwenhost.expectations.gpu_limits import gpu_limit
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_hardware

_RESET = by_hand("Drain the GPU and reset it (nvidia-smi -r -i GPU), or reboot in the next window.")


@check(
    "memory.row-remap-pending",
    remedy=_RESET,
    consequence_of=DRIVER_ANSWERS,
)
def row_remap_pending(gpus: Gpus | None, kernel: KernelEvents | None) -> Iterator[Judgement]:
    """No memory row waits for a reset to be replaced.

    After an uncorrectable error the row is set aside, and replaced by a spare at the next reset. What
    runs stays correct, but that memory is missing until then.
    """
    known = {gpu.bus_id for gpu in gpus.gpus if gpu.remap_pending is not None} if gpus else set()
    yield from _from_log(kernel, 63, Verdict.WARN, known)
    if gpus:
        yield from _each_that_remaps(gpus, _waiting, _pending)


def _waiting(gpu: Gpu) -> tuple[str, ...] | None:
    """Name the repairs that wait for a reset; None where none of them is told of."""
    told = {
        "pending": gpu.remap_pending,
        "channel repair pending": gpu.channel_repair_pending,
        "TPC repair pending": gpu.tpc_repair_pending,
    }
    if all(waits is None for waits in told.values()):
        return None
    return tuple(name for name, waits in told.items() if waits)


def _pending(gpu: Gpu, waiting: tuple[str, ...]) -> Judgement:
    observed = ", ".join(waiting) or "none"
    return judged(gpu.subject, not waiting, observed=observed, expected="none", otherwise=Verdict.WARN)


def _from_log(
    kernel: KernelEvents | None, number: int, verdict: Verdict, known: set[str | None]
) -> Iterator[Judgement]:
    """Yield what only the kernel log tells; where the driver's own flag was seen, that decides."""
    last = {event.bus_id: event for event in kernel.xids(number)} if kernel else {}
    for where, event in last.items():
        if where not in known:
            yield Judgement(f"gpu {where}", verdict, f"Xid {number}", "none", evidence=event.text)


@check(
    "memory.row-remap-failure",
    remedy=by_hardware("Take the GPU out of service, run the field diagnostic, and have it replaced."),
    consequence_of=DRIVER_ANSWERS,
)
def row_remap_failure(gpus: Gpus | None, kernel: KernelEvents | None) -> Iterator[Judgement]:
    """Every bad memory row could be replaced.

    A failed remapping (Xid 64) means that the spares of a bank are used up: the next error there hits
    programs again. The flag is the maker's criterion for a return.
    """
    known = {gpu.bus_id for gpu in gpus.gpus if gpu.remap_failure is not None} if gpus else set()
    yield from _from_log(kernel, 64, Verdict.FAIL, known)
    if gpus:
        yield from _each_that_remaps(gpus, lambda gpu: gpu.remap_failure, _failed)


def _failed(gpu: Gpu, failed: bool) -> Judgement:
    beyond = bool(gpu.unrepairable_memory)
    observed = "failed" if failed else "unrepairable memory" if beyond else "none failed"
    return judged(gpu.subject, not failed and not beyond, observed=observed, expected="none failed")


@check(
    "memory.row-remap-banks",
    remedy=by_hardware("Plan the replacement of the board: run the field diagnostic in the next window."),
    consequence_of=(*DRIVER_ANSWERS, "memory.row-remap-failure"),
)
def row_remap_banks(gpus: Gpus, want: Expectations) -> Iterator[Judgement]:
    """Every memory bank has spare rows left.

    Spares are used up one by one, unseen. The next uncorrectable error in a bank without any cannot be
    repaired, and the board has to be replaced then.
    """
    parted = tuple(gpu for gpu in gpus.gpus if gpu.mig and gpu.banks_without_spare is None)
    yield from (skip(gpu.subject, "cannot be read while MIG is on") for gpu in parted)
    rest = replace(gpus, gpus=tuple(gpu for gpu in gpus.gpus if gpu not in parted))
    yield from _each_that_remaps(rest, lambda gpu: gpu.banks_without_spare, _banks)


def _banks(gpu: Gpu, empty: int) -> Judgement:
    low = gpu.banks_low_on_spares or 0
    observed = f"{empty} banks without a spare row" + (f", {low} with few" if low else "")
    verdict = Verdict.WARN if empty else Verdict.NOTE if low else Verdict.PASS
    return Judgement(gpu.subject, verdict, observed, "none")


def _each_that_remaps(
    gpus: Gpus, value: Callable[[Gpu], Any], judge: Callable[[Gpu, Any], Judgement]
) -> Iterator[Judgement]:
    """As `each_outside_mig`, for boards that have spare rows; others were asked and have none."""
    without = tuple(gpu for gpu in gpus.gpus if gpu.remaps_rows is False and not gpu.mig)
    yield from (skip(gpu.subject, "this board has no spare rows") for gpu in without)
    rest = replace(gpus, gpus=tuple(gpu for gpu in gpus.gpus if gpu not in without))
    yield from each_outside_mig(rest, value, judge)


@check(
    "memory.retired-pages",
    remedy=by_hardware("Plan the replacement of the board: run the field diagnostic in the next window."),
    consequence_of=DRIVER_ANSWERS,
)
def retired_pages(gpus: Gpus, want: Expectations) -> Iterator[Judgement]:
    """Boards before Ampere have set aside few pages of memory, and none waits for a reset.

    They have no spare rows: a page with errors is no longer used after the next reset. The maker takes a
    board back when there are too many. A100 and later boards replace rows instead.
    """
    for gpu in gpus.answering:
        told = (gpu.retired_pages_corrected, gpu.retired_pages_uncorrected)
        if gpu.remaps_rows or gpu.mig or (want.sku and want.sku.ecc == "row-remap"):
            yield skip(gpu.subject, "this board replaces rows, not pages")
        elif any(count is not None for count in told):
            yield _retired(gpu, sum(count or 0 for count in told))
        elif gpu.ecc is not True and gpu.performance_state is not None:
            yield skip(gpu.subject, "ECC is off, or the board has none")


def _retired(gpu: Gpu, pages: int) -> Judgement:
    most = gpu_limit("retired_pages")
    if gpu.retirement_pending and pages < most:
        return Judgement(
            gpu.subject, Verdict.WARN, f"{pages}, and more after a reset", "none pending", remedy=_RESET
        )
    verdict = Verdict.PASS if pages < most else Verdict.WARN
    return Judgement(gpu.subject, verdict, f"{pages} pages", f"fewer than {most}")


@check(
    "memory.hbm-temperature",
    remedy=by_hardware("Check airflow, fans, filters and the heat sink of that GPU."),
    consequence_of=DRIVER_ANSWERS,
)
def hbm_temperature(gpus: Gpus, want: Expectations) -> Iterator[Judgement]:
    """GPU memory stays below its highest operating temperature.

    Above it the driver lowers clocks, for A100 at 95 C, while the GPU's own temperature may look
    harmless. The board's own limit counts, the product's where the board does not tell.
    """
    limit = want.sku.temperature_memory_max_celsius if want.sku else None
    hot = [gpu for gpu in gpus.answering if gpu.temperature_memory_celsius is not None]
    for gpu in hot:
        yield _heat(gpu, gpu.temperature_memory_max_celsius or limit)
    if not hot and any(gpu.temperature_celsius is not None for gpu in gpus.answering):
        yield skip("host", "these boards report no memory temperature")


def _heat(gpu: Gpu, limit: int | None) -> Judgement:
    now = gpu.temperature_memory_celsius or 0
    if limit is None:
        return skip(gpu.subject, f"{now} C; the board gives no limit in degrees, see thermal.temperature")
    return judged(
        gpu.subject, now < limit, observed=f"{now} C", expected=f"below {limit} C", otherwise=Verdict.WARN
    )
