"""What fits on which board, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qwenhost.expectations.model_shapes import by_name
from qwenhost.expectations.serving_tables import OVERHEAD, overhead_gib
from qwenhost.expectations.skus import skus
from qwenhost.expectations.tables import table
from qwenhost.records.fit import Candidate, Fit, Question
from qwenhost.serving.fit import fit
from qwenhost.serving.kv_cache import block_pool
from qwenhost.workflows.serving_plan import boards as target_of
from qwenhost.workflows.serving_plan import places, plan

GIB = 2**30


def question(model: str, **changes: object) -> Question:
    shape, precision = by_name(model)
    return replace(Question(shape, precision), **changes)


def boards(model: str, sku: str, gpus: int = 1, **changes: object) -> Fit:
    return plan(question(model, **changes), target_of(sku, gpus))


def whole(answer: Fit, parallel: int = 1) -> Candidate:
    return next(one for one in answer.candidates if one.tensor_parallel == parallel and not one.mig_profile)


def reasons(answer: Fit) -> dict[str, str]:
    return {refused.layout: refused.reason for refused in answer.refused}


@pytest.mark.parametrize("run", table(OVERHEAD)["measured"], ids=str)
def test_tokens_of_measured_runs_within_three_percent(run: dict) -> None:
    """Without the pool's size: from the memory budget, the weights and the fitted overhead alone."""
    model = by_name(f"qwen3.5-{run['size']}")[0]
    weights = model.loaded_bytes("bf16", vision=False, mtp=False) / GIB
    size = run["memory_gib"] * 0.92 - weights - overhead_gib(model, run["sequences"], run["batched_tokens"], False)
    pool = block_pool(model)
    concurrency = pool.blocks(size * GIB) / pool.per_request(run["context"], run["prefix_caching"], 0)
    assert concurrency * run["context"] == pytest.approx(run["tokens"], rel=0.03)


@pytest.mark.parametrize(
    ("model", "sku", "gpus", "parallel", "weights_gib"),
    [
        ("qwen3.5-9b", "a100-sxm4-40gb", 1, 1, 16.68),
        ("qwen3.5-27b-fp8", "a100-sxm4-40gb", 1, 1, 27.44),
        ("qwen3.5-27b-gptq-int4", "a100-sxm4-40gb", 1, 1, 26.44),
        ("qwen3.5-27b", "a100-sxm4-40gb", 4, 2, 25.05),
        ("qwen3.5-27b", "a100-sxm4-80gb", 8, 1, 50.10),
    ],
)
def test_weights(model: str, sku: str, gpus: int, parallel: int, weights_gib: float) -> None:
    planned = whole(boards(model, sku, gpus), parallel)
    assert planned.weights_gib == pytest.approx(weights_gib, abs=0.01)


def test_given_pool_makes_the_arithmetic_exact() -> None:
    planned = whole(boards("qwen3.5-9b", "a100-sxm4-40gb", kv_cache_gib=17.31))
    assert (planned.blocks, planned.blocks_per_request) == (1074, 69)
    assert planned.concurrency == pytest.approx(1074 / 69)
    assert planned.overhead_gib is None
    assert "--kv-cache-memory-bytes" in planned.args
    assert "--gpu-memory-utilization" not in planned.args


def test_smallest_group_with_enough_requests_is_chosen() -> None:
    answer = boards("qwen3.5-27b", "a100-sxm4-40gb", 8)
    assert answer.chosen is not None
    assert (answer.chosen.tensor_parallel, answer.chosen.replicas) == (2, 4)
    assert "exceed the memory" in reasons(answer)["8 x (1 GPU)"]


def test_context_decides_how_many_gpus_work_together() -> None:
    answer = boards("qwen3.5-27b", "a100-sxm4-80gb", 8, context_tokens=131072)
    assert answer.chosen is not None
    assert answer.chosen.tensor_parallel == 2


def test_more_sequences_than_state_blocks_are_refused() -> None:
    """vLLM: max_num_seqs exceeds available Mamba cache blocks."""
    answer = boards("qwen3.5-27b", "a100-sxm4-80gb", max_num_seqs=1024)
    assert "each sequence needs one for its state" in reasons(answer)["1 x (1 GPU)"]
    chosen = boards("qwen3.5-27b-fp8", "a100-sxm4-40gb").chosen
    assert chosen is not None
    assert chosen.max_num_seqs <= chosen.blocks < 256


@pytest.mark.parametrize(
    ("changes", "gpus", "layout", "reason"),
    [
        ({"tensor_parallel": 3}, 8, "2 x (3 GPUs)", "16 query heads do not divide among 3 GPUs"),
        ({"context_tokens": 300000}, 1, "1 x (1 GPU)", "the model's context is 262144"),
        ({"kv_cache_dtype": "fp8"}, 1, "1 x (1 GPU)", "no FP8 KV cache on this GPU"),
        ({"tensor_parallel": 2}, 8, "28 x (1g.5gb)", "no tensor parallelism over MIG devices"),
        ({"kv_cache_gib": 0.5}, 1, "1 x (1 GPU)", "needs 70"),
        ({"kv_cache_gib": 500}, 1, "1 x (1 GPU)", "a cache of 500 GiB exceed the memory by 477.3 GiB"),
        ({"tensor_parallel": 16}, 8, "1 x (16 GPUs)", "16 GPUs wanted, there are 8"),
        ({"context_tokens": 1, "kv_cache_gib": 0.05}, 1, "1 x (1 GPU)", "one request of 1 token needs 8"),
        (
            {"max_num_batched_tokens": 128, "max_num_seqs": 129},
            1,
            "1 x (1 GPU)",
            "more than max_num_batched_tokens",
        ),
    ],
)
def test_refusals(changes: dict, gpus: int, layout: str, reason: str) -> None:
    assert reason in reasons(boards("qwen3.5-9b", "a100-sxm4-40gb", gpus, **changes))[layout]


def test_pcie_boards_work_together_only_over_bridges() -> None:
    assert "no NVLink" in reasons(boards("qwen3.5-27b", "a100-80gb-pcie", 2))["1 x (2 GPUs)"]
    bridged = fit(question("qwen3.5-27b"), places(skus()["a100-80gb-pcie"], 2, bridged=True))
    assert any(one.tensor_parallel == 2 for one in bridged.candidates)


def test_boards_without_nvlink_work_together_where_it_is_asked_for() -> None:
    forced = boards("qwen3.5-27b", "a100-pcie-40gb", 4, tensor_parallel=2)
    assert forced.chosen is not None
    assert (forced.chosen.replicas, forced.reason) == (2, "2 GPUs per replica, as asked")
    assert any("no NVLink between 2 GPUs, but asked for" in note for note in forced.chosen.notes)


def test_boards_that_belong_to_no_replica_are_told() -> None:
    answer = boards("qwen3.5-122b-a10b", "a100-sxm4-80gb", 6)
    assert answer.chosen is not None
    assert (answer.chosen.tensor_parallel, answer.chosen.replicas) == (4, 1)
    assert "2 of 6 GPUs stay idle" in answer.chosen.notes
    even = boards("qwen3.5-27b", "a100-sxm4-80gb", 8).chosen
    assert even is not None and even.notes == ()


def test_short_steps_mean_fewer_requests_at_a_time() -> None:
    assert whole(boards("qwen3.5-9b", "a100-sxm4-80gb", max_num_batched_tokens=64)).max_num_seqs == 64


def test_vision_and_mtp_take_memory() -> None:
    plain = whole(boards("qwen3.5-9b", "a100-sxm4-40gb"))
    seeing = whole(boards("qwen3.5-9b", "a100-sxm4-40gb", vision=True))
    guessing = whole(boards("qwen3.5-9b", "a100-sxm4-40gb", mtp_tokens=1))
    assert plain.weights_gib < guessing.weights_gib < seeing.weights_gib
    assert plain.kv_tokens > guessing.kv_tokens > seeing.kv_tokens
    assert "--language-model-only" not in seeing.args
    assert any('"method": "mtp"' in argument for argument in guessing.args)


def test_capacity_falls_with_the_context() -> None:
    held = [requests for _, requests in whole(boards("qwen3.5-9b", "a100-sxm4-80gb")).capacity]
    assert held == sorted(held, reverse=True)
    assert len(held) == 7


def test_mig_slices_are_candidates_and_whole_gpus_are_preferred() -> None:
    answer = boards("qwen3.5-9b", "a100-sxm4-80gb", 2)
    assert answer.chosen is not None
    assert answer.chosen.mig_profile == ""
    half = next(one for one in answer.candidates if one.mig_profile == "3g.40gb")
    assert (half.replicas, half.tensor_parallel) == (4, 1)


def test_host_needs_disk_for_the_whole_checkpoint_and_memory_for_its_processes() -> None:
    answer = boards("qwen3.5-27b", "a100-sxm4-40gb", 8)
    assert answer.disk_gib == pytest.approx(1.1 * 55_562_855_904 / GIB)
    assert answer.ram_gib == 4 * (2 + 2) * 3  # 4 replicas, each with API server, engine core and 2 workers


def test_all_sizes_and_precisions_are_known() -> None:
    quantised = ("27b", "35b-a3b", "122b-a10b", "397b-a17b")
    names = [f"qwen3.5-{size}" for size in ("0.8b", "2b", "4b", "9b", *quantised)]
    names += [f"qwen3.5-{size}-{precision}" for size in quantised for precision in ("fp8", "gptq-int4")]
    for name in [*names, "qwen3.6-27b", "qwen3.6-35b-a3b-fp8"]:
        shape, precision = by_name(name)
        parameters = shape.text_params + shape.mtp_params + shape.vision_params
        assert shape.weight_bytes["bf16"] == 2 * parameters
        assert shape.weight_bytes[precision] <= 2 * parameters
