"""Error correction of GPU memory: switched on, and what it could not correct."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.checks.per_vllm import blamed
from qwenhost.expectations.driver_tables import xid, xids
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_hardware, by_reboot

_ON_BY_DEFAULT = ("row-remap", "page-retirement")

_RESET = by_reboot("Stop what uses the GPU and reset it (nvidia-smi -r -i GPU), or reboot.")


@check(
    "memory.ecc-mode",
    remedy=by_hand("Switch ECC on (nvidia-smi -i GPU -e 1) and reset the GPU, or declare qwenhost_ecc: false."),
    consequence_of=DRIVER_ANSWERS,
)
def ecc_mode(gpus: Gpus, want: Expectations) -> Iterator[Judgement]:
    """ECC is on, where the board has it for servers, and no change of it waits for a reset.

    Without ECC a flipped bit in weights or KV cache is neither corrected nor noticed. Boards with HBM lose no
    memory by it. A change takes effect at the next reset, at times years after somebody asked for it.
    """
    for gpu in gpus.answering:
        if gpu.ecc is not None:
            yield _mode(gpu, gpu.ecc, want)
        elif _was_read(gpu):
            yield skip(gpu.subject, "the board has no ECC, or its driver does not tell")


def _was_read(gpu: Gpu) -> bool:
    return gpu.performance_state is not None or gpu.memory_total_mib is not None


def _mode(gpu: Gpu, on: bool, want: Expectations) -> Judgement:
    origin = "" if want.ecc is None else "inventory: qwenhost_ecc"
    if gpu.ecc_pending is not None and gpu.ecc_pending != on:
        waits = f"{_word(on)}, {_word(gpu.ecc_pending)} after a reset"
        return Judgement(gpu.subject, Verdict.NOTE, waits, "no change pending", origin=origin, remedy=_RESET)
    return Judgement(gpu.subject, _verdict(on, want), _word(on), _word(_wanted(on, want)), origin=origin)


def _wanted(on: bool, want: Expectations) -> bool:
    """Return what was declared, or else what the product has by default; more than that is welcome."""
    if want.ecc is not None:
        return want.ecc
    return on or want.sku is None or want.sku.ecc != "optional"


def _verdict(on: bool, want: Expectations) -> Verdict:
    if on == _wanted(on, want):
        return Verdict.PASS
    known = want.ecc is not None or (want.sku is not None and want.sku.ecc in _ON_BY_DEFAULT)
    return Verdict.WARN if known else Verdict.NOTE


def _word(on: bool) -> str:
    return "on" if on else "off"


@check(
    "memory.uncorrected-ecc",
    remedy=by_hand("Drain and reset the GPU; if errors come back, run the field diagnostic and have it replaced."),
    consequence_of=DRIVER_ANSWERS,
)
def uncorrected_ecc(gpus: Gpus | None, kernel: KernelEvents | None, runs: VllmRuns | None) -> Iterator[Judgement]:
    """No uncorrectable memory error occurred since the driver was loaded.

    Each one stops the program that it hits (Xid 48, 94); an uncontained one makes all results suspect
    (Xid 95). Errors of earlier loads, which only the sum over the board's life has, were dealt with by the
    reset since then, and are a note.
    """
    told = [number for number, meaning in xids().items() if meaning.told_by == "memory.uncorrected-ecc"]
    logged = {event.bus_id: event for event in (kernel.xids(*told) if kernel else ())}
    for where, event in logged.items():
        seen = f"Xid {event.number}: {xid(event.number).meaning}"
        yield Judgement(f"gpu {where}", Verdict.FAIL, seen, "none", evidence=event.text)
    counted = any(gpu.ecc_uncorrected_volatile for gpu in gpus.answering) if gpus else False
    for subject, cause in () if logged or counted else blamed("memory.uncorrected-ecc", runs):
        yield Judgement(subject, Verdict.FAIL, cause.observed, "none", evidence=cause.line)
    for gpu in gpus.answering if gpus else ():
        count = gpu.ecc_uncorrected_volatile
        if count is not None and (gpu.bus_id not in logged or count == 0):
            yield _uncorrected(gpu, count)
        elif count is None and gpu.ecc is not True and _was_read(gpu):
            yield skip(gpu.subject, "ECC is off, or the board has none")


def _uncorrected(gpu: Gpu, count: int) -> Judgement:
    ever = gpu.ecc_uncorrected_aggregate or 0
    earlier = f", {ever} in the board's life" if ever > count else ""
    verdict = Verdict.FAIL if count else Verdict.NOTE if earlier else Verdict.PASS
    return Judgement(gpu.subject, verdict, f"{count} since load{earlier}", "0")


@check(
    "memory.sram-threshold",
    remedy=by_hardware("Take the GPU out of service, run the field diagnostic, and have it replaced."),
    consequence_of=DRIVER_ANSWERS,
)
def sram_threshold(gpus: Gpus) -> Iterator[Judgement]:
    """The caches of each GPU have not had more uncorrectable errors than the maker allows.

    Rows of the large memory are replaced by spares; the SRAM of caches and registers has none. The board
    counts its errors over its life and says itself when they are too many. Drivers before 550 do not tell.
    """
    for gpu in gpus.answering:
        if gpu.sram_threshold_exceeded is not None:
            yield judged(
                gpu.subject,
                not gpu.sram_threshold_exceeded,
                observed="exceeded" if gpu.sram_threshold_exceeded else "not exceeded",
                expected="not exceeded",
            )
        elif gpu.ecc_uncorrected_aggregate is not None or gpu.ecc is False:
            yield skip(gpu.subject, "this driver or board does not tell")
        elif gpu.ecc is None and _was_read(gpu):
            yield skip(gpu.subject, "the board has no ECC, or its driver does not tell")
