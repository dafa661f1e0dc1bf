"""What decides how much of a GPU a model takes: its shape and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

BF16_BYTES = 2


@dataclass(frozen=True)
class WeightBytes:
    """Bytes of a checkpoint, and of its parts that may stay out or that a token goes through only in part."""

    PARTS: ClassVar = ("vision", "mtp", "experts")

    total: int
    vision: int = 0
    mtp: int = 0
    experts: int = 0

    @property
    def text(self) -> int:
        """Bytes without vision tower and MTP layer."""
        return self.total - self.vision - self.mtp


@dataclass(frozen=True)
class ModelShape:
    """A hybrid of full attention and gated delta net layers, as Qwen3.5's config.json has it.

    `weight_bytes`: precision -> bytes of the whole checkpoint. `active_params`: those that one token goes
    through, all of them in a dense model.
    """

    name: str
    attention_layers: int
    linear_layers: int
    hidden: int
    vocabulary: int
    query_heads: int
    kv_heads: int
    head_dim: int
    linear_key_heads: int
    linear_value_heads: int
    linear_key_dim: int
    linear_value_dim: int
    conv_kernel: int
    context_tokens: int
    text_params: int
    active_params: int
    mtp_params: int
    vision_params: int
    weight_bytes: Mapping[str, int]
    origin: str

    def loaded_bytes(self, precision: str, vision: bool, mtp: bool) -> int:
        """Return the bytes that vLLM holds; vision tower and MTP layer are BF16 in every precision."""
        left_out = self.vision_params * (not vision) + self.mtp_params * (not mtp)
        return self.weight_bytes[precision] - BF16_BYTES * left_out
