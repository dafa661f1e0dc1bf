"""Learn from a running service what vLLM takes of a GPU there, and keep it for later plans.

Kept under $XDG_STATE_HOME/qwenhost/calibrations, a file per target and model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import quote

from qwenhost.expectations import serving_tables as tables
from qwenhost.expectations.serving_tables import GIB
from qwenhost.records.calibration import Calibration
from qwenhost.records.errors import FAILED, BadData, QwenhostError
from qwenhost.records.fit import Place, Question
from qwenhost.reports.files import PRIVATE, write_whole
from qwenhost.serving.kv_cache import BlockPool, block_pool
from qwenhost.workflows.smoke.service import Service, Unanswered
from qwenhost.workflows.state import StateUnusable, state_folder

SCHEMA = 1
HALF_A_BLOCK = 0.5
"""A pool is some part of a block larger than its blocks; the middle plans the same number of blocks again."""

SAME_OPTIONS = "name the options that the service runs with: --tensor-parallel, --mtp, --kv-cache-dtype"


def calibrate(question: Question, place: Place, target: str, service: Service, url: str) -> Calibration:
    """Return what a service tells of its memory; it has to run with the options of the question.

    Raises QwenhostError where it does not answer, or where its cache tells nothing of the overhead.
    """
    info = _info(service, url)
    pool = block_pool(question.model, question.tensor_parallel or 1, question.mtp_tokens, question.kv_cache_dtype)
    blocks = _blocks(info, pool, url)
    asked = replace(question, gpu_memory_utilization=_share(info, question.gpu_memory_utilization))
    pool_gib = (blocks + HALF_A_BLOCK) * pool.block_bytes / GIB
    loaded = question.model.loaded_bytes(question.precision, question.vision, question.mtp_tokens > 0)
    weights = loaded / (question.tensor_parallel or 1) / GIB
    sequences = question.max_num_seqs or min(tables.rule("max_num_seqs"), blocks)
    batched = question.max_num_batched_tokens or tables.rule("max_num_batched_tokens")
    return Calibration(
        target=target,
        model=question.model.name,
        precision=question.precision,
        service=url,
        pool_gib=pool_gib,
        overhead_gib=asked.gpu_memory_utilization * place.memory_gib - weights - pool_gib,
        estimated_gib=tables.overhead_gib(question.model, sequences, batched, question.vision),
        measured_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def keep(calibration: Calibration) -> Path:
    """Write it where a later plan of the same target and model finds it. Raises QwenhostError."""
    path = _file(calibration.target, calibration.model, calibration.precision)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps({"schema": SCHEMA, **asdict(calibration)}, indent=1) + "\n", PRIVATE)
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}", exit_code=FAILED) from error
    return path


def calibrated(question: Question, *targets: str) -> Question:
    """Return the question with what is known of the first target that was measured."""
    known = (_read(_file(target, question.model.name, question.precision)) for target in targets if target)
    return replace(question, calibration=next(filter(None, known), None))


def _info(service: Service, url: str) -> Mapping[str, str]:
    try:
        return service.counts().config
    except (OSError, Unanswered) as error:
        why = error.seen.observed if isinstance(error, Unanswered) else str(error)
        raise QwenhostError(
            f"{url}: {why or type(error).__name__}", hint="see qwenhost smoke", exit_code=FAILED
        ) from error


def _blocks(info: Mapping[str, str], pool: BlockPool, url: str) -> int:
    """Return the number of blocks, once it is sure that they are the ones of this plan."""
    size, blocks = info.get("block_size", ""), info.get("num_gpu_blocks", "")
    if not (size.isdecimal() and blocks.isdecimal()):
        raise QwenhostError(f"{url}: it publishes no vllm:cache_config_info", exit_code=FAILED)
    if int(size) != pool.block_tokens:
        told = f"its blocks have {size} tokens, those of this plan {pool.block_tokens}"
        raise QwenhostError(f"{url}: {told}", hint=SAME_OPTIONS)
    fixed = [
        name for name in ("kv_cache_memory_bytes", "num_gpu_blocks_override") if info.get(name, "None") != "None"
    ]
    if fixed:
        raise QwenhostError(
            f"{url}: its pool was given ({fixed[0]}), which tells nothing of the overhead",
            hint="calibrate with a service that sizes its pool by --gpu-memory-utilization",
        )
    return int(blocks)


def _share(info: Mapping[str, str], otherwise: float) -> float:
    try:
        return float(info["gpu_memory_utilization"])
    except (KeyError, ValueError):
        return otherwise


def _file(target: str, model: str, precision: str) -> Path:
    try:
        return state_folder() / "calibrations" / f"{quote(f'{target} {model} {precision}', safe='@ ')}.json"
    except StateUnusable as error:
        raise QwenhostError(str(error)) from error


def _read(path: Path) -> Calibration | None:
    """Return what is kept in a file, None when there is none. Raises BadData for another form."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.pop("schema") != SCHEMA:
            raise BadData(f"{path}: another schema", hint="remove it and calibrate anew")
        return Calibration(**raw)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadData(f"{path}: no calibration: {error}", hint="remove it and calibrate anew") from error
