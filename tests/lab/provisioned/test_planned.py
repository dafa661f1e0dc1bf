"""The planner's arithmetic is what a running vLLM says of itself."""

from __future__ import annotations

import json
import re

from qwenhost.expectations.model_shapes import of_checkpoint
from qwenhost.records.model_shape import WeightBytes
from qwenhost.serving.kv_cache import block_pool
from tests.lab.provisioned.conftest import Provisioned

MODEL = "/srv/models/tiny-qwen3.5"
CONTEXT, POOL_BYTES = 2048, 2**30
PROCESSOR_BLOCK_TOKENS = 128
"""Attention on a CPU wants blocks of 128 tokens, on a GPU of 16."""


def test_cache_of_the_running_service_is_as_planned(provisioned: Provisioned) -> None:
    config = json.loads(provisioned.on("lab1", f"cat {MODEL}/config.json"))
    info = dict(
        re.findall(r'(\w+)="([^"]*)"', provisioned.on("lab1", "curl -s 127.0.0.1:8000/metrics | grep config_info"))
    )
    pool = block_pool(
        of_checkpoint("tiny", config, WeightBytes(1), MODEL), kernel_block_tokens=PROCESSOR_BLOCK_TOKENS
    )
    concurrency = pool.blocks(POOL_BYTES) / pool.per_request(CONTEXT, True, 0)
    assert int(info["block_size"]) == pool.block_tokens
    assert int(info["num_gpu_blocks"]) == pool.blocks(POOL_BYTES)
    assert int(info["kv_cache_size_tokens"]) == int(concurrency * CONTEXT)
    assert abs(float(info["kv_cache_max_concurrency"]) - concurrency) < 0.001
