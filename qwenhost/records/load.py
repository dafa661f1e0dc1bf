"""What a served model did under load."""

from __future__ import annotations

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
