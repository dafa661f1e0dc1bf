"""Shapes of the Qwen3.5 family by name, or of a checkpoint by its config.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from qwenhost.expectations.models import FILE, all_sizes, nearest_sizes
from qwenhost.expectations.tables import table
from qwenhost.records.errors import USAGE, QwenhostError
from qwenhost.records.model_shape import BF16_BYTES, ModelShape, WeightBytes

PRECISIONS = ("bf16", "fp8", "gptq-int4")
NAME = re.compile(
    r"(?:qwen/)?(?P<family>qwen3\.\d+)-(?P<size>\d+(?:\.\d+)?b(?:-a\d+b)?)(?:-base)?(?:-(?P<precision>[a-z0-9-]+))?",
    re.IGNORECASE,
)


def by_name(name: str) -> tuple[ModelShape, str]:
    """Return the shape and the precision of "qwen3.5-27b" or "Qwen/Qwen3.5-27B-FP8". Raises QwenhostError."""
    found = NAME.fullmatch(name)
    size = _size(found["family"].lower(), found["size"].lower()) if found else ""
    if found is None or not size:
        near = nearest_sizes(name)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise QwenhostError(
            f"there is no model {name or repr(name)}",
            hint=f"{hint}Qwen3.5 has {', '.join(all_sizes())}",
            exit_code=USAGE,
        )
    shape, precision = _shape(name.lower(), size), (found["precision"] or PRECISIONS[0]).lower()
    if precision not in shape.weight_bytes:
        offered = ", ".join(shape.weight_bytes)
        raise QwenhostError(f"there is no {precision} of {name}", hint=f"it exists as {offered}", exit_code=USAGE)
    return shape, precision


def _size(family: str, size: str) -> str:
    """Return the size whose shape a model has, empty when there is none."""
    raw = table(FILE)
    if family == raw["family"]:
        return size if size in raw["shapes"] else ""
    return str(raw["same_shape_as"].get(f"{family}-{size}", ""))


def _shape(name: str, size: str) -> ModelShape:
    raw = table(FILE)
    row, common = raw["shapes"][size], raw["common"]
    return ModelShape(
        name=name,
        attention_layers=row["layers"]["attention"],
        linear_layers=row["layers"]["linear"],
        hidden=row["hidden"],
        query_heads=row["heads"]["query"],
        kv_heads=row["heads"]["kv"],
        linear_key_heads=row["heads"]["linear_key"],
        linear_value_heads=row["heads"]["linear_value"],
        text_params=row["params"]["text"],
        active_params=row["params"]["active"],
        mtp_params=row["params"]["mtp"],
        vision_params=row["params"]["vision"],
        weight_bytes=row["weight_bytes"],
        origin=f"data/{FILE}: {size}",
        **common,
    )


def of_checkpoint(name: str, config: Mapping[str, Any], weights: WeightBytes, origin: str) -> ModelShape:
    """Return the shape that a checkpoint's config.json tells.

    Raises QwenhostError for another architecture.
    """
    text = config.get("text_config", config)
    try:
        attention = _attention_layers(text)
        return ModelShape(
            name=name,
            attention_layers=attention,
            linear_layers=int(text["num_hidden_layers"]) - attention,
            hidden=int(text["hidden_size"]),
            vocabulary=int(text["vocab_size"]),
            query_heads=int(text["num_attention_heads"]),
            kv_heads=int(text["num_key_value_heads"]),
            head_dim=int(text["head_dim"]),
            linear_key_heads=int(text["linear_num_key_heads"]),
            linear_value_heads=int(text["linear_num_value_heads"]),
            linear_key_dim=int(text["linear_key_head_dim"]),
            linear_value_dim=int(text["linear_value_head_dim"]),
            conv_kernel=int(text["linear_conv_kernel_dim"]),
            context_tokens=int(text["max_position_embeddings"]),
            text_params=weights.text // BF16_BYTES,
            active_params=int(weights.text - weights.experts * _idle_share(text)) // BF16_BYTES,
            mtp_params=weights.mtp // BF16_BYTES,
            vision_params=weights.vision // BF16_BYTES,
            weight_bytes={_precision(config): weights.total},
            origin=origin,
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise QwenhostError(
            f"{origin}: not the config of a Qwen3.5 model: {error}", hint="name a folder with its config.json"
        ) from error


def _idle_share(text: Mapping[str, Any]) -> float:
    """Return the share of the experts that one token does not go through."""
    experts = int(text.get("num_experts") or 0)
    return 1 - int(text["num_experts_per_tok"]) / experts if experts else 0.0


def _attention_layers(text: Mapping[str, Any]) -> int:
    """Return how many layers are full attention; a saved config names each, a published one their interval."""
    kinds = text.get("layer_types")
    if kinds:
        return int(list(kinds).count("full_attention"))
    return int(text["num_hidden_layers"]) // int(text["full_attention_interval"])


def _precision(config: Mapping[str, Any]) -> str:
    method = (config.get("quantization_config") or {}).get("quant_method", "")
    return {"fp8": "fp8", "gptq": "gptq-int4"}.get(str(method), PRECISIONS[0])
