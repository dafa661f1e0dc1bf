"""Throughput that was lost, as the play hears of it."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from qwenhost.ansible.action.qwenhost_bench import _lost
from qwenhost.records.load import Ladder, Step

BEFORE = Ladder(
    "gpu-a1 vllm@main",
    "qwen3.5-9b",
    "0.32.0",
    512,
    128,
    "2026-12-02T20:00:00Z",
    (Step(32, 128, 0, 2000.0, 10000.0, 50.0, 90.0, 8.0, 9.0),),
)


def lost(tokens_per_s: float, failed: int = 0, baseline: tuple[Ladder, ...] = (BEFORE,)) -> list[str]:
    now = replace(
        BEFORE, vllm="0.33.0", steps=(replace(BEFORE.steps[0], output_tokens_per_s=tokens_per_s, failed=failed),)
    )
    options = {"baseline": [asdict(ladder) for ladder in baseline], "throughput_drop_percent": 15}
    return list(_lost((now,), options))


@pytest.mark.parametrize("tokens_per_s", [2500.0, 2000.0, 1701.0])
def test_as_quick_as_it_may_be(tokens_per_s: float) -> None:
    assert lost(tokens_per_s) == []


def test_slower_than_it_may_be() -> None:
    assert lost(1600.0) == [
        "gpu-a1 vllm@main: 80 % of the output tokens/s that it had before, at 32 requests at a time"
    ]
    assert lost(2500.0, failed=3)[0].endswith("at 32 requests at a time, and 3 of 128 failed")


def test_nothing_to_compare_with_is_nothing_lost() -> None:
    assert lost(1.0, baseline=()) == []
    assert lost(1.0, baseline=(replace(BEFORE, service="gpu-a1 vllm@other"),)) == []
