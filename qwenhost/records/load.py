"""What a served model did under load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step of a ladder: so many requests at a time. Times in milliseconds, as clients see them."""

    concurrency: int
    requests: int
    failed: int
    output_tokens_per_s: float
    total_tokens_per_s: float
    ttft_median_ms: float
    ttft_p99_ms: float
    tpot_median_ms: float
    tpot_p99_ms: float
    cached_share: float | None = None
    """Of the prompts' tokens, found in the prefix cache: such a step measured less than it seems."""


@dataclass(frozen=True)
class Ladder:
    """A measured service. `vllm`: its version, empty where the service does not tell."""

    service: str
    model: str
    vllm: str
    input_tokens: int
    output_tokens: int
    measured_at: str
    """ISO 8601, UTC."""
    steps: tuple[Step, ...]

    roofline: tuple[float, ...] = ()
    """Estimated output tokens/s of each step, where a plan told them."""

    def at(self, concurrency: int) -> Step | None:
        """Return one step."""
        return next((step for step in self.steps if step.concurrency == concurrency), None)


@dataclass(frozen=True)
class Comparison:
    """A step against the same step of a baseline; ratios above 1 are better for throughput, worse for time."""

    concurrency: int
    output_tokens_ratio: float
    ttft_p99_ratio: float
    holds: bool


@dataclass(frozen=True)
class Gain:
    """One concurrency of a trial: own options against vLLM's defaults, in each of the two pairs."""

    concurrency: int
    output_tokens_ratios: tuple[float, float]
    """Above 1: its own options are faster."""
    ttft_p99_ratios: tuple[float, float]
    """Below 1: its own options answer sooner."""
    failed: int
    cached_share: float | None
    """The largest of the four measures."""

    @property
    def ratio(self) -> float:
        """The geometric mean of the pairs."""
        return math.prod(self.output_tokens_ratios) ** 0.5

    @property
    def agree(self) -> bool:
        """Whether both orders say the same; if not, the difference is within the noise."""
        return (self.output_tokens_ratios[0] - 1) * (self.output_tokens_ratios[1] - 1) > 0


@dataclass(frozen=True)
class Trial:
    """A service measured with its own options and with vLLM's defaults: own, defaults, defaults, own."""

    own: tuple[Ladder, Ladder]
    defaults: tuple[Ladder, Ladder]
    kept: Mapping[str, object]
    """What it was started with beside the bare need, because vLLM's defaults do not start, or as was asked."""
    refusals: tuple[str, ...] = ()
    """Why it did not start with less."""

    @property
    def gains(self) -> tuple[Gain, ...]:
        """One for each step."""
        measures = (*self.own, *self.defaults)
        steps = zip(*(ladder.steps for ladder in measures), strict=True)
        return tuple(_gain(*step) for step in steps)


def _gain(own: Step, own_last: Step, defaults: Step, defaults_last: Step) -> Gain:
    pairs, four = ((own, defaults), (own_last, defaults_last)), (own, own_last, defaults, defaults_last)
    shares = [step.cached_share for step in four if step.cached_share is not None]
    tokens = [one.output_tokens_per_s / max(other.output_tokens_per_s, 1e-9) for one, other in pairs]
    times = [one.ttft_p99_ms / max(other.ttft_p99_ms, 1e-9) for one, other in pairs]
    failed = sum(step.failed for step in four)
    return Gain(own.concurrency, (tokens[0], tokens[1]), (times[0], times[1]), failed, max(shares, default=None))
