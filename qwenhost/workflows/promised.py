"""What was promised of a service: by its declaration and the plan behind it, or by a plan kept in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qwenhost.expectations.declared import Declared
from qwenhost.expectations.model_shapes import by_name
from qwenhost.expectations.vllm_options import options
from qwenhost.records.desired import Serving, VllmInstance
from qwenhost.records.errors import USAGE, QwenhostError
from qwenhost.records.fit import Question
from qwenhost.records.promise import Promise
from qwenhost.serving.fit import fit
from qwenhost.serving.roofline import Roofline
from qwenhost.workflows.calibration import calibrated
from qwenhost.workflows.serving_plan import places

LENGTHS = {"max-model-len": "context_tokens", "max-num-seqs": "sequences"}
GIB = 2**30


def promise_of(declared: Declared, serving: Serving, instance: VllmInstance) -> Promise:
    """Return what a declared instance was planned to hold; the cache's size only where the planner knows it."""
    given = options(serving, instance)
    return Promise(
        context_tokens=_number(given.get("max-model-len")),
        sequences=_number(given.get("max-num-seqs")),
        kv_tokens=_kv_tokens(declared, serving, instance, given),
        origin=serving.origin,
    )


def promise_in(path: Path) -> Promise:
    """Return what the chosen layout of `qwenhost plan --json` promises. Raises QwenhostError."""
    chosen = _chosen(path)
    try:
        context = chosen["args"][chosen["args"].index("--max-model-len") + 1]
        return Promise(int(context), int(chosen["max_num_seqs"]), int(chosen["kv_tokens"]), str(path))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise _no_plan(path, error) from error


def roofline_in(path: Path) -> Roofline:
    """Return the rates that the chosen layout of a plan estimates. Raises QwenhostError where it has none."""
    chosen = _chosen(path)
    try:
        return Roofline(float(chosen["decode_tokens_per_s"]), float(chosen["prefill_tokens_per_s"]))
    except (KeyError, TypeError, ValueError) as error:
        raise QwenhostError(
            f"{path}: the plan estimates no rates", hint="plan for whole A100 boards", exit_code=USAGE
        ) from error


def _chosen(path: Path) -> Mapping[str, Any]:
    try:
        chosen = json.loads(path.read_text(encoding="utf-8"))["chosen"]
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}", exit_code=USAGE) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _no_plan(path, error) from error
    if not isinstance(chosen, dict):
        raise _no_plan(path, "nothing is chosen")
    return chosen


def _no_plan(path: Path, why: object) -> QwenhostError:
    return QwenhostError(
        f"{path}: not a plan that fits: {why}", hint="write it with qwenhost plan --json", exit_code=USAGE
    )


def _kv_tokens(
    declared: Declared, serving: Serving, instance: VllmInstance, given: dict[str, object]
) -> int | None:
    """Return the planned size for whole GPUs of a known board and a model of the family, else None."""
    context = _number(given.get("max-model-len"))
    if serving.package != "vllm" or declared.sku is None or instance.mig or context is None:
        return None
    try:
        shape, precision = by_name(serving.model_name)
        size = max(1, len(instance.gpus))
        question = Question(shape, precision, context, tensor_parallel=size, **asked_by(given))
        known = calibrated(question, declared.host, declared.sku.name)
        chosen = fit(known, places(declared.sku, size, bridged=True)[:1]).chosen
    except (QwenhostError, TypeError, ValueError):
        return None
    return chosen.kv_tokens if chosen else None


def asked_by(given: dict[str, object]) -> dict[str, Any]:
    """Return the fields of a question that options of vLLM decide."""
    pool = _number(given.get("kv-cache-memory-bytes"))
    return {
        "prefix_caching": bool(given.get("enable-prefix-caching", True)),
        "vision": not given.get("language-model-only", False),
        "gpu_memory_utilization": float(str(given.get("gpu-memory-utilization", 0.92))),
        "max_num_seqs": _number(given.get("max-num-seqs")),
        "max_num_batched_tokens": _number(given.get("max-num-batched-tokens")),
        "kv_cache_gib": pool / GIB if pool else None,
    }


def _number(value: object) -> int | None:
    """Return a number of tokens or requests; forms such as "32k" or "auto" are left to vLLM."""
    text = str(value)
    return int(text) if text.isdecimal() else None
