"""How vLLM lays out the cache of a hybrid model: attention pages and recurrent states share one pool of blocks.

A recurrent state is padded to the size of an attention page, so a block of attention grows until its page holds
a state. Layers are put in groups of one size; a block holds a page of each layer of a group. Source: vLLM 0.32
platforms/interface.py, v1/kv_cache_interface.py and v1/core/kv_cache_utils.py; equal to its logs to the digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from qwenhost.records.model_shape import BF16_BYTES, ModelShape

STATE_BYTES = 4
"""Recurrent states are float32 (mamba_ssm_dtype of the family)."""

CACHED_STATES, RUNNING_STATE = 2, 1
"""State blocks of a request in each group: prefix caching keeps the one before, too."""

KV_BYTES = {"auto": 2, "fp8": 1}


@dataclass(frozen=True)
class BlockPool:
    """`block_tokens`: tokens of an attention block; `block_bytes`: its size over all layers of a group."""

    block_tokens: int
    block_bytes: int
    attention_groups: int
    state_groups: int

    def blocks(self, pool_bytes: float) -> int:
        """Return how many blocks a pool has."""
        return int(pool_bytes // self.block_bytes)

    def per_request(self, tokens: int, prefix_caching: bool, mtp_tokens: int) -> int:
        """Return how many blocks one request of so many tokens takes."""
        states = (CACHED_STATES if prefix_caching else RUNNING_STATE) + mtp_tokens
        return self.attention_groups * ceil(tokens / self.block_tokens) + self.state_groups * states


def block_pool(
    model: ModelShape,
    tensor_parallel: int = 1,
    mtp_tokens: int = 0,
    kv_cache_dtype: str = "auto",
    kernel_block_tokens: int = 16,
) -> BlockPool:
    """Return the layout on one of `tensor_parallel` GPUs."""
    token_bytes = 2 * max(1, model.kv_heads // tensor_parallel) * model.head_dim * KV_BYTES[kv_cache_dtype]
    step = kernel_block_tokens * token_bytes
    block_tokens = kernel_block_tokens * ceil(_state_bytes(model, tensor_parallel, mtp_tokens) / step)
    attention, linear = model.attention_layers + (mtp_tokens > 0), model.linear_layers
    group = _group_size(attention, linear)
    return BlockPool(
        block_tokens=block_tokens,
        block_bytes=group * block_tokens * token_bytes,
        attention_groups=ceil(attention / group),
        state_groups=ceil(linear / group),
    )


def _state_bytes(model: ModelShape, tensor_parallel: int, mtp_tokens: int) -> int:
    """Return the bytes of one layer's convolution and recurrent states of one sequence."""
    keys = model.linear_key_heads * model.linear_key_dim
    values = model.linear_value_heads * model.linear_value_dim
    convolution = (2 * keys + values) // tensor_parallel * (model.conv_kernel - 1 + mtp_tokens) * BF16_BYTES
    recurrent = values // tensor_parallel * model.linear_key_dim * STATE_BYTES
    return convolution + recurrent


def _group_size(attention: int, linear: int) -> int:
    small, large = sorted((attention, linear))
    return large if large < 1.5 * small else small
