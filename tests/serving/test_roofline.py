"""The estimate that measured ladders are held against."""

from __future__ import annotations

import pytest

from qwenhost.serving.roofline import Roofline

A100 = Roofline(decode_tokens_per_s=60.0, prefill_tokens_per_s=8700.0)


def test_one_request_is_bound_by_memory() -> None:
    assert A100.output_tokens_per_s(1, 512, 128) == pytest.approx(60, rel=0.05)


def test_many_requests_are_bound_by_arithmetic() -> None:
    assert A100.output_tokens_per_s(10**6, 512, 128) == pytest.approx(8700 / 5, rel=0.01)


def test_longer_prompts_leave_less_for_answers() -> None:
    rates = [A100.output_tokens_per_s(64, prompt, 128) for prompt in (0, 512, 4096)]
    assert rates == sorted(rates, reverse=True)
