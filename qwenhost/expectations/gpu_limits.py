"""From which figures on a GPU's counters and loads are worth a word: data/gpu_limits.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from qwenhost.expectations.tables import figures, table

PATH = "gpu_limits.yaml"

_NAMES = frozenset(
    {
        "working_percent",
        "temperature_near_celsius",
        "power_held_percent",
        "memory_unexplained_mib",
        "retired_pages",
        "pcie_replays_per_minute",
        "pcie_replays_least_minutes",
    }
)


@cache
def gpu_limit(name: str) -> int:
    """Return one figure; its unit is in its name. Raises BadData."""
    return int(figures(PATH, _NAMES, others=("nvlink_errors",))[name])


@cache
def nvlink_error_limits() -> Mapping[str, int]:
    """Return counter -> count from which it is worth a warning. Raises BadData."""
    return {name: count for name, count in table(PATH)["nvlink_errors"].items() if name != "source"}
