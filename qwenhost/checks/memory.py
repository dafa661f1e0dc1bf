"""GPU memory: rows that were or could not be remapped, errors, heat."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged
from qwenhost.checks.per_gpu import DRIVER_ANSWERS, each_outside_mig
from qwenhost.expectations.driver_tables import xid, xids
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_hardware


@check(
    "memory.row-remap-pending",
    remedy=by_hand("Drain the GPU and reset it (nvidia-smi -r -i GPU), or reboot in the next window."),
    consequence_of=DRIVER_ANSWERS,
)
def row_remap_pending(gpus: Gpus | None, kernel: KernelEvents | None) -> Iterator[Judgement]:
    """No memory row waits for a reset to be replaced.

    After an uncorrectable error the row is set aside, and replaced by a spare at the next reset. What
    runs stays correct, but that memory is missing until then.
    """
    flagged = {gpu.bus_id for gpu in gpus.gpus if gpu.remap_pending} if gpus else set()
    yield from _from_log(kernel, 63, Verdict.WARN, flagged)
    if gpus:
        yield from each_outside_mig(gpus, lambda gpu: gpu.remap_pending, _pending)


def _pending(gpu: Gpu, waits: bool) -> Judgement:
    return judged(
        gpu.subject,
        not waits,
        observed="pending" if waits else "none",
        expected="none",
        otherwise=Verdict.WARN,
    )


def _from_log(
    kernel: KernelEvents | None, number: int, verdict: Verdict, flagged: set[str | None]
) -> Iterator[Judgement]:
    """Yield what only the kernel log tells; the driver's own flag, where it is up, tells the same."""
    last = {event.bus_id: event for event in kernel.xids(number)} if kernel else {}
    for where, event in last.items():
        if where not in flagged:
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
    flagged = {gpu.bus_id for gpu in gpus.gpus if gpu.remap_failure} if gpus else set()
    yield from _from_log(kernel, 64, Verdict.FAIL, flagged)
    if gpus:
        yield from each_outside_mig(gpus, lambda gpu: gpu.remap_failure, _failed)


def _failed(gpu: Gpu, failed: bool) -> Judgement:
    return judged(gpu.subject, not failed, observed="failed" if failed else "none failed", expected="none failed")


@check(
    "memory.uncorrected-ecc",
    remedy=by_hand("Drain and reset the GPU; if errors come back, run the field diagnostic and have it replaced."),
    consequence_of=DRIVER_ANSWERS,
)
def uncorrected_ecc(gpus: Gpus | None, kernel: KernelEvents | None) -> Iterator[Judgement]:
    """No uncorrectable memory error occurred since the driver was loaded.

    Each one stops the program that it hits (Xid 48, 94); an uncontained one makes all results suspect
    (Xid 95). Errors of earlier loads are worth a warning only where nothing else is known of them.
    """
    told = [number for number, meaning in xids().items() if meaning.told_by == "memory.uncorrected-ecc"]
    logged = {event.bus_id: event for event in (kernel.xids(*told) if kernel else ())}
    for where, event in logged.items():
        seen = f"Xid {event.number}: {xid(event.number).meaning}"
        yield Judgement(f"gpu {where}", Verdict.FAIL, seen, "none", evidence=event.text)
    for gpu in gpus.answering if gpus else ():
        count = gpu.ecc_uncorrected_volatile
        if count is not None and (gpu.bus_id not in logged or count == 0):
            yield judged(gpu.subject, count == 0, observed=f"{count} since load", expected="0")


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
        yield Judgement("host", Verdict.SKIP, "these boards report no memory temperature")


def _heat(gpu: Gpu, limit: int | None) -> Judgement:
    now = gpu.temperature_memory_celsius or 0
    if limit is None:
        return Judgement(gpu.subject, Verdict.NOTE, f"{now} C", "a limit, which is not known")
    return judged(
        gpu.subject, now < limit, observed=f"{now} C", expected=f"below {limit} C", otherwise=Verdict.WARN
    )
