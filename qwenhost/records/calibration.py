"""What vLLM was measured to take on a host, against the estimate for the same options."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Calibration:
    """A running service's memory. Sizes in GiB per GPU; `target`: host or board that it is kept for."""

    target: str
    model: str
    precision: str
    service: str
    pool_gib: float
    overhead_gib: float
    estimated_gib: float
    """Of the overhead, for the options that the service ran with."""
    measured_at: str
    """ISO 8601, UTC."""

    @property
    def correction_gib(self) -> float:
        """What every estimate of this target and model is off by."""
        return self.overhead_gib - self.estimated_gib

    @property
    def origin(self) -> str:
        """Where a corrected figure comes from."""
        return f"measured at {self.service} on {self.measured_at[:10]}"
