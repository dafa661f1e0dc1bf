"""Versions of vLLM that matter here, and from where on a running service is worth a word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from qwenhost.expectations.tables import table

FILE = "vllm/limits.yaml"


@dataclass(frozen=True)
class VllmLimits:
    """The figures of data/vllm/limits.yaml, where each has its source."""

    security_version: str
    uuids_version: str
    families_without_fp8: tuple[str, ...]
    restarts: int
    preemptions: int
    preemptions_percent: float
    queue_lines: int
    waiting_per_running: float
    least_blocks_asked: int


@cache
def vllm_limits() -> VllmLimits:
    """Return the figures; raises KeyError for a table that lacks one."""
    raw = table(FILE)
    figures: dict[str, Any] = raw["figures"]
    return VllmLimits(
        security_version=raw["versions"]["security"]["version"],
        uuids_version=raw["versions"]["uuids"]["version"],
        families_without_fp8=tuple(raw["capability"]["without_fp8_families"]),
        restarts=figures["restarts"]["warn_from_count"],
        preemptions=figures["preemptions"]["warn_from_count"],
        preemptions_percent=figures["preemptions"]["warn_from_percent_of_requests"],
        queue_lines=figures["queue"]["lines"],
        waiting_per_running=figures["queue"]["warn_from_waiting_per_running"],
        least_blocks_asked=figures["prefix_cache"]["least_blocks_asked"],
    )


def limit_origin(key: str) -> str:
    """Return where a figure stands, and why it is that one."""
    raw = table(FILE)
    row = raw["figures"].get(key) or raw["versions"].get(key) or raw[key]
    return f"{FILE}: {key}: {row['source']}"
