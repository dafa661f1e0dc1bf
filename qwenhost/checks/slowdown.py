"""Why clocks are lower than they could be: heat, power, an outside signal."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check
from qwenhost.checks.per_gpu import DRIVER_ANSWERS, each
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.records.finding import Verdict, by_hand, by_hardware

_HEAT = {"hardware thermal slowdown": Verdict.FAIL, "software thermal slowdown": Verdict.WARN}


@check(
    "thermal.slowdown",
    remedy=by_hardware("Check airflow, fans, inlet temperature and the heat sink of that GPU."),
    consequence_of=DRIVER_ANSWERS,
)
def thermal(gpus: Gpus) -> Iterator[Judgement]:
    """No GPU is slowed down by heat.

    The driver lowers clocks above the highest operating temperature of GPU or memory; the hardware halves
    them, or worse, when that did not help. A tensor parallel group runs at the pace of its hottest GPU.
    """
    yield from each(gpus, lambda gpu: gpu.slowdowns, _thermal)


def _thermal(gpu: Gpu, active: frozenset[str]) -> Judgement:
    found = [reason for reason in _HEAT if reason in active]
    bare = "hardware slowdown" in active and not found and "hardware power brake" not in active
    if bare:
        return Judgement(gpu.subject, Verdict.WARN, "hardware slowdown, cause not named", "none")
    if not found:
        return Judgement(gpu.subject, Verdict.PASS, "none", "none")
    temperature = f" at {gpu.temperature_celsius} C" if gpu.temperature_celsius is not None else ""
    return Judgement(gpu.subject, _HEAT[found[0]], f"{', '.join(found)}{temperature}", "none")


@check(
    "power.brake",
    remedy=by_hardware("Check power supplies, their redundancy, and power capping in the management controller."),
    consequence_of=DRIVER_ANSWERS,
)
def power_brake(gpus: Gpus) -> Iterator[Judgement]:
    """No outside signal holds the GPUs' clocks down.

    The board's power brake input is pulled by power supplies or management controller when power is
    short; clocks drop to a fraction at once.
    """
    yield from each(gpus, lambda gpu: gpu.slowdowns, _brake)


def _brake(gpu: Gpu, active: frozenset[str]) -> Judgement:
    pulled = "hardware power brake" in active
    return Judgement(gpu.subject, Verdict.FAIL if pulled else Verdict.PASS, "pulled" if pulled else "free", "free")


@check(
    "power.limit",
    remedy=by_hand("Set the board's default power limit (nvidia-smi -pl), and find what lowers it."),
    consequence_of=DRIVER_ANSWERS,
)
def power_limit(gpus: Gpus) -> Iterator[Judgement]:
    """Each GPU may draw what its board is made for.

    A cap below the board's own default is kept on purpose at times, and forgotten at others. A board that
    is held by its power cap while it draws far less than its limit is throttled from outside.
    """
    yield from each(gpus, lambda gpu: gpu.power_limit_watts, _limit)


def _limit(gpu: Gpu, limit: int) -> Judgement:
    default = gpu.power_default_watts
    if default is not None and limit < default:
        return Judgement(gpu.subject, Verdict.WARN, f"{limit} W", f"{default} W, the board's default")
    usage = gpu.power_usage_watts
    if usage is not None and "software power cap" in (gpu.slowdowns or ()) and usage * 4 < limit * 3:
        return Judgement(gpu.subject, Verdict.WARN, f"held at {usage} W of {limit} W", "free up to its limit")
    return Judgement(gpu.subject, Verdict.PASS, f"{limit} W", f"{default} W" if default else "")
