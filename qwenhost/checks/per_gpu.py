"""Questions that are asked of each GPU alike: a lost GPU is told by gpu.on-bus, a missing value is
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from qwenhost.checks.declare import Judgement, note, skip
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


def each_outside_mig(
    gpus: Gpus, value: Callable[[Gpu], Value | None], judge: Callable[[Gpu, Value], Judgement]
) -> Iterator[Judgement]:
    """As `each`, for what the driver does not tell of a partitioned GPU: there it is a note that it is blind."""
    blind = tuple(gpu for gpu in gpus.gpus if gpu.mig and value(gpu) is None)
    for gpu in blind:
        yield note(gpu.subject, "cannot be read while MIG is on")
    yield from each(replace(gpus, gpus=tuple(gpu for gpu in gpus.gpus if gpu not in blind)), value, judge)
