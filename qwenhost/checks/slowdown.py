"""Why clocks are lower than they could be: heat, power, an outside signal."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS, each
from qwenhost.expectations.gpu_limits import gpu_limit
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
    remedy=by_hand("Set the board's default power limit (nvidia-smi -i GPU -pl WATTS), and find what lowers it."),
    consequence_of=DRIVER_ANSWERS,
)
def power_limit(gpus: Gpus) -> Iterator[Judgement]:
    """Each GPU may draw what its board is made for.

    A cap below the board's own default is kept on purpose at times, and forgotten at others.
    """
    yield from each(gpus, lambda gpu: gpu.power_limit_watts, _limit)


def _limit(gpu: Gpu, limit: int) -> Judgement:
    default = gpu.power_default_watts
    lowered = default is not None and limit < default
    expected = f"{default} W, the board's default" if lowered else f"{default} W" if default else ""
    worst = Verdict.NOTE if gpu.virtual else Verdict.WARN  # there the owner of the machine may have set it
    return Judgement(gpu.subject, worst if lowered else Verdict.PASS, f"{limit} W", expected)


@check(
    "power.capping",
    remedy=by_hardware("Check power supplies, and power capping in the management controller of the host."),
    consequence_of=(*DRIVER_ANSWERS, "power.brake"),
)
def capping(gpus: Gpus) -> Iterator[Judgement]:
    """No GPU is held at a power cap that is not its own.

    At full load a GPU runs into its own limit, which is as it should be. One that reports its power cap
    while it draws far less is throttled from outside: by the host's controller, or by a limit over all GPUs.
    """
    yield from each(gpus, lambda gpu: gpu.slowdowns, _capping)


def _capping(gpu: Gpu, active: frozenset[str]) -> Judgement:
    usage, limit = gpu.power_usage_watts, gpu.power_limit_watts
    if "software power cap" not in active:
        return Judgement(gpu.subject, Verdict.PASS, "not capped", "not capped below its limit")
    if usage is None or limit is None:
        return note(gpu.subject, "at a power cap", expected="its draw and limit, which were not seen")
    if _idle(gpu):
        return Judgement(gpu.subject, Verdict.PASS, f"at a cap while idle, {usage} W of {limit} W")
    held = usage * 100 < limit * gpu_limit("power_held_percent")
    observed = f"{'held at' if held else 'at its limit:'} {usage} W of {limit} W"
    return Judgement(gpu.subject, Verdict.WARN if held else Verdict.NOTE, observed, "free up to its limit")


def _idle(gpu: Gpu) -> bool:
    busy = gpu.utilization_percent
    return "idle" in (gpu.slowdowns or ()) or (busy is not None and busy < gpu_limit("working_percent"))


@check(
    "thermal.temperature",
    remedy=by_hardware("Check airflow, fans, inlet temperature and the heat sink of that GPU."),
    consequence_of=(*DRIVER_ANSWERS, "thermal.slowdown"),
)
def temperature(gpus: Gpus) -> Iterator[Judgement]:
    """Each GPU stays below the temperatures at which its board lowers clocks.

    The limits are those that the board itself tells: degrees on A100, degrees left to the nearest limit
    (T.Limit) from Ada and Hopper on.
    """
    warm = [gpu for gpu in gpus.answering if gpu.temperature_celsius is not None]
    for gpu in warm:
        left = _degrees_left(gpu)
        yield (
            skip(gpu.subject, f"{gpu.temperature_celsius} C, limits not seen")
            if left is None
            else _hot(gpu, *left)
        )


def _degrees_left(gpu: Gpu) -> tuple[int, int | None] | None:
    """Return the degrees below the highest operating temperature, and below the hardware's slowdown."""
    now = gpu.temperature_celsius or 0
    if gpu.temperature_max_celsius is not None:
        slowdown = gpu.temperature_slowdown_celsius
        return gpu.temperature_max_celsius - now, None if slowdown is None else slowdown - now
    if gpu.margin_celsius is not None and gpu.margin_max_celsius is not None:
        slowdown = gpu.margin_slowdown_celsius
        left = gpu.margin_celsius
        return left - gpu.margin_max_celsius, None if slowdown is None else left - slowdown
    return None


def _hot(gpu: Gpu, left: int, to_slowdown: int | None) -> Judgement:
    halved = to_slowdown is not None and to_slowdown <= 0
    near = left <= gpu_limit("temperature_near_celsius")
    verdict = Verdict.FAIL if halved else Verdict.WARN if left <= 0 else Verdict.NOTE if near else Verdict.PASS
    place = f"{left} C below" if left > 0 else f"{-left} C above"
    observed = f"{gpu.temperature_celsius} C, {place} its highest operating temperature"
    return Judgement(gpu.subject, verdict, observed, "below it")
