"""Questions that are asked of each GPU alike: a lost GPU is told by gpu.on-bus, a missing value is
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from qwenhost.checks.declare import Judgement, skip
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.records.finding import Verdict

Value = TypeVar("Value")

DRIVER_ANSWERS = ("driver.present", "driver.versions-agree")
"""What explains that nothing was seen of what only the driver can tell."""


def each(
    gpus: Gpus, value: Callable[[Gpu], Value | None], judge: Callable[[Gpu, Value], Judgement]
) -> Iterator[Judgement]:
    """Judge a value of each GPU; nothing is yielded when no GPU has it, so that the engine says unknown."""
    if all(value(gpu) is None for gpu in gpus.gpus):
        return
    for gpu in gpus.gpus:
        seen = value(gpu)
        if gpu.lost is not None:
            yield skip(gpu.subject, "off the bus")
        elif seen is None:
            yield Judgement(gpu.subject, Verdict.UNKNOWN, observed="not seen")
        else:
            yield judge(gpu, seen)
