"""What the planner predicts is what vLLM does: the same blocks, tokens and concurrency, the same refusals.

More sequences than state blocks, which the planner refuses, too, fail on a GPU only, where vLLM asks before it
captures CUDA graphs; its CPU build starts with them.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from qwenhost.lab import tiny_model
from qwenhost.lab.wheelhouse import CACHE
from qwenhost.records.fit import Candidate, Place, Question, Refused
from qwenhost.serving.fit import arguments, fit
from qwenhost.serving.kv_cache import block_pool
from qwenhost.workflows.serving_plan import model_of
from tests.lab.planner.starts import Started, start_all

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="the lab's cache belongs to root")]

PROCESSOR = Place("CPU", count=1, memory_gib=8, joined=1, family="cpu")
PROCESSOR_BLOCK_TOKENS = 128
"""Attention on a CPU wants blocks of 128 tokens, on a GPU of 16."""

ACCEPTED = {
    "prefix": {"blocks": 512, "context_tokens": 2048, "prefix_caching": True, "max_num_seqs": 8},
    "no-prefix": {"blocks": 384, "context_tokens": 16384, "prefix_caching": False, "max_num_seqs": 4},
    "just-enough": {"blocks": 11, "context_tokens": 1024, "prefix_caching": True, "max_num_seqs": 11},
}
REFUSED = {
    "too-small": {"blocks": 10, "context_tokens": 1024, "prefix_caching": True, "max_num_seqs": 8},
    "too-long": {"blocks": 4096, "context_tokens": 300000, "prefix_caching": True, "max_num_seqs": 8},
}
REASONS = {
    "too-small": ("one request of 1024 tokens needs 11", "is larger than the available KV cache memory"),
    "too-long": ("the model's context is 262144", "is greater than the derived max_model_len"),
}
"""Words of the planner's reason, and of vLLM's."""


def question(blocks: int, **asked: object) -> Question:
    """A pool of so many blocks, which makes the arithmetic exact."""
    shape, precision = model_of(str(tiny_model.build(CACHE)))
    plain = Question(shape, precision, kernel_block_tokens=PROCESSOR_BLOCK_TOKENS)
    size = block_pool(shape, kernel_block_tokens=PROCESSOR_BLOCK_TOKENS).block_bytes
    return replace(plain, kv_cache_gib=blocks * size / 2**30, **asked)


def planned(name: str) -> Candidate:
    (candidate,) = fit(question(**ACCEPTED[name]), [PROCESSOR]).candidates
    return candidate


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Started]:
    runs = {name: planned(name).args for name in ACCEPTED}
    for name, asked in REFUSED.items():
        wanted = question(**asked)
        runs[name] = arguments(wanted, 1, asked["max_num_seqs"], planned("prefix").max_num_batched_tokens)
    return start_all(runs, tmp_path_factory.mktemp("starts"))


@pytest.mark.parametrize("name", ACCEPTED)
def test_predicted_figures_are_those_of_the_service(name: str, started: dict[str, Started]) -> None:
    plan, real = planned(name), started[name]
    assert real.served, real.log[-2000:]
    assert int(real.info["block_size"]) == plan.block_tokens
    assert int(real.info["num_gpu_blocks"]) == plan.blocks
    assert int(real.info["kv_cache_size_tokens"]) == plan.kv_tokens
    assert float(real.info["kv_cache_max_concurrency"]) == pytest.approx(plan.concurrency, abs=1e-9)
    assert real.logged == (plan.kv_tokens, round(plan.concurrency, 2))


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_plan_refuses_does_not_start(name: str, started: dict[str, Started]) -> None:
    answer = fit(question(**REFUSED[name]), [PROCESSOR])
    ours, theirs = REASONS[name]
    assert isinstance(answer.refused[0], Refused)
    assert ours in answer.refused[0].reason
    assert not started[name].served
    assert theirs in started[name].log
