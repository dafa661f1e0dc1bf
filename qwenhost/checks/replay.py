"""How often PCIe links of GPUs had to send again."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.expectations.gpu_limits import gpu_limit
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.replays import Replays
from qwenhost.facts.uptime import Uptime
from qwenhost.records.finding import Verdict, by_hardware


@check(
    "pcie.replay",
    remedy=by_hardware("Reseat the board and its riser; try another slot, then another riser or retimer."),
    consequence_of=(*DRIVER_ANSWERS, "pcie.aer"),
)
def replay(replays: Replays, uptime: Uptime | None, gpus: Gpus | None) -> Iterator[Judgement]:
    """The PCIe link of each GPU seldom has to send a packet again.

    Some dozens of replays since the last reset are common on sound hosts. Many of them each minute come from
    a bad contact, riser or retimer, cost bandwidth, and often announce a GPU that falls off the bus.
    """
    names = {gpu.bus_id: gpu.subject for gpu in gpus.gpus} if gpus else {}
    for where, count in replays.last().items():
        rate = replays.per_minute(where)
        if rate is None and uptime and uptime.minutes >= gpu_limit("pcie_replays_least_minutes"):
            rate = count / uptime.minutes
        yield _rate(names.get(where, f"gpu {where}"), count, rate)


def _rate(subject: str, count: int, rate: float | None) -> Judgement:
    most = gpu_limit("pcie_replays_per_minute")
    few = most * gpu_limit("pcie_replays_least_minutes")
    if rate is None and count > few:
        return note(subject, f"{count} since reset", expected="a second reading, which would tell the rate")
    told = f"{count} since reset" + (f", {rate:.2g} a minute" if rate else "")
    return judged(
        subject, (rate or 0) <= most, observed=told, expected=f"{most} a minute at most", otherwise=Verdict.WARN
    )
