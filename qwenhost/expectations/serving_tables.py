"""Figures of a serving plan: rules, boards, and what vLLM takes beside weights and cache."""

from __future__ import annotations

from qwenhost.expectations.tables import table
from qwenhost.records.desired import Sku
from qwenhost.records.model_shape import ModelShape

BOARDS, OVERHEAD, RULES = "serving/boards.yaml", "serving/overhead.yaml", "serving/rules.yaml"
GIB = 2**30
LOGITS_BYTES, HIDDEN_BYTES = 8, 2


def rule(name: str) -> int:
    """Return the figure of a rule."""
    return int(table(RULES)[name]["value"])


def tensor_parallel_sizes() -> tuple[int, ...]:
    """Return the sizes that are considered."""
    return tuple(table(RULES)["tensor_parallel"])


def family_in(rule_name: str, family: str) -> bool:
    """Tell whether a rule names a GPU family."""
    return family in table(RULES)[rule_name]["names"]


def usable_gib(sku: Sku) -> float | None:
    """Return what CUDA reports of a board's memory; None for a board whose size is not known."""
    row = table(BOARDS)["usable_gib"].get(sku.name)
    if row:
        return float(row["gib"])
    return sku.memory_mib / 1024 * table(BOARDS)["usable_share"]["value"] if sku.memory_mib else None


def memory_gb_per_s(sku: Sku) -> float | None:
    """Return a board's memory bandwidth."""
    row = table(BOARDS)["memory_gb_per_s"].get(sku.name)
    return float(row["gb_per_s"]) if row else None


def bf16_tflops(sku: Sku) -> float | None:
    """Return a board's dense BF16 peak."""
    row = table(BOARDS)["bf16_tflops"].get(sku.family)
    return float(row["tflops"]) if row else None


def efficiency(kind: str) -> float:
    """Return the share of the peak that "decode" or "prefill" reaches."""
    return float(table(BOARDS)[f"{kind}_efficiency"]["value"])


def overhead_gib(model: ModelShape, sequences: int, batched_tokens: int, vision: bool) -> float:
    """Return what vLLM takes of a GPU beside weights and cache, as fitted to measured runs."""
    raw = table(OVERHEAD)
    logits = sequences * model.vocabulary * LOGITS_BYTES / GIB
    activations = batched_tokens * model.hidden * HIDDEN_BYTES / GIB
    head = model.vocabulary * model.hidden * HIDDEN_BYTES / GIB
    layers = model.attention_layers + model.linear_layers
    text = raw["per_head"] * head + raw["per_layer_gib"] * layers
    text += raw["per_sequence"] * logits + raw["per_batched_token"] * activations
    return float(text + (raw["vision"]["gib"] if vision else 0))
