"""Does a model fit, and how: every layout is tried, kept with its figures or refused with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from qwenhost.expectations import serving_tables as tables
from qwenhost.expectations.serving_tables import GIB
from qwenhost.records.fit import ESTIMATED, Candidate, Fit, Place, Question, Refused
from qwenhost.records.model_shape import ModelShape
from qwenhost.serving.kv_cache import BlockPool, block_pool

SERVER_PROCESSES = 2
"""API server and engine core of a replica, beside a worker per GPU."""

SHORTEST_CONTEXT = 4096
"""Tokens, from which the capacity is told."""


@dataclass(frozen=True)
class Layout:
    """So many GPUs of a place work as one replica."""

    place: Place
    tensor_parallel: int

    @property
    def replicas(self) -> int:
        """Copies of the model that the place holds."""
        return self.place.count // self.tensor_parallel

    @property
    def idle(self) -> int:
        """GPUs or MIG devices that belong to no replica."""
        return self.place.count % self.tensor_parallel

    @property
    def label(self) -> str:
        """Such as "4 x (2 GPUs)" or "14 x (3g.40gb)"."""
        gpus = f"{self.tensor_parallel} GPUs" if self.tensor_parallel > 1 else "1 GPU"
        return f"{max(1, self.replicas)} x ({self.place.mig_profile or gpus})"


def fit(question: Question, places: Sequence[Place]) -> Fit:
    """Try all layouts on all places, the whole GPUs first."""
    tried = [_try(question, layout) for place in places for layout in _layouts(question, place)]
    candidates = tuple(one for one in tried if isinstance(one, Candidate))
    refused = tuple(one for one in tried if isinstance(one, Refused))
    chosen = _choose(candidates)
    disk, ram = _disk_gib(question), _ram_gib(chosen)
    return Fit(chosen, _reason(chosen, question, refused), candidates, refused, disk, ram)


def _disk_gib(question: Question) -> float:
    """Return what the whole checkpoint takes: parts that are not loaded lie on the disk, too."""
    share = tables.rule("disk_percent_of_weights") / 100
    return share * question.model.weight_bytes[question.precision] / GIB


def _ram_gib(chosen: Candidate | None) -> float:
    """Return what API server, engine core and workers of all replicas take."""
    processes = chosen.replicas * (SERVER_PROCESSES + chosen.tensor_parallel) if chosen else 0
    return float(processes * tables.rule("ram_gib_per_process"))


def _layouts(question: Question, place: Place) -> Iterator[Layout]:
    asked = question.tensor_parallel
    for size in (asked,) if asked else tables.tensor_parallel_sizes():
        if asked or (size <= place.count and (size == 1 or not place.mig_profile)):
            yield Layout(place, size)


def _choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the smallest group of whole GPUs that holds enough requests, else the one that holds most."""
    enough = tables.rule("enough_requests")
    ordered = sorted(candidates, key=lambda one: (bool(one.mig_profile), one.tensor_parallel))
    first = next((one for one in ordered if one.concurrency >= enough), None)
    return first or max(ordered, key=lambda one: one.concurrency, default=None)


def _reason(chosen: Candidate | None, question: Question, refused: Sequence[Refused]) -> str:
    if chosen is None:
        whole = [one.reason for one in refused if "GPU" in one.layout]
        return whole[-1] if whole else "there is no GPU"
    asked = f"{tables.rule('enough_requests')} requests of {_tokens(question.context_tokens)}"
    if question.tensor_parallel and chosen.tensor_parallel > 1:
        return f"{chosen.tensor_parallel} GPUs per replica, as asked"
    if chosen.concurrency >= tables.rule("enough_requests"):
        return f"the fewest GPUs per replica that hold {asked}"
    return f"none holds {asked}; this one holds most"


def _tokens(count: int) -> str:
    return f"{count} token{'s' * (count != 1)}"


def _try(question: Question, layout: Layout) -> Candidate | Refused:
    obstacle = _obstacle(question, layout)
    if obstacle:
        return Refused(layout.label, obstacle)
    pool = block_pool(
        question.model,
        layout.tensor_parallel,
        question.mtp_tokens,
        question.kv_cache_dtype,
        question.kernel_block_tokens,
    )
    batched = question.max_num_batched_tokens or tables.rule("max_num_batched_tokens")
    sequences = question.max_num_seqs or _sequences(question, layout, pool, batched)
    size = _pool_gib(question, layout, sequences, batched)
    shortage = _too_large(question, layout, sequences, batched) or _shortage(question, pool, size, sequences)
    if shortage:
        return Refused(layout.label, shortage)
    return _candidate(question, layout, pool, size, sequences, batched)


def _obstacle(question: Question, layout: Layout) -> str:
    """Return what forbids a layout whatever its memory, empty for nothing."""
    model, size, place = question.model, layout.tensor_parallel, layout.place
    heads = {
        "query": model.query_heads,
        "linear key": model.linear_key_heads,
        "linear value": model.linear_value_heads,
    }
    uneven = next((f"{count} {kind} heads" for kind, count in heads.items() if count % size), "")
    if size > 1 and place.mig_profile:
        return "no tensor parallelism over MIG devices: NCCL does not span them"
    if size > place.count:
        return f"{size} GPUs wanted, there are {place.count}"
    if uneven or max(size, model.kv_heads) % min(size, model.kv_heads):
        return f"{uneven or f'{model.kv_heads} KV heads'} do not divide among {size} GPUs"
    if size > place.joined and not question.tensor_parallel:
        return f"no NVLink between {size} GPUs: each token would wait for PCIe"
    if question.context_tokens > model.context_tokens:
        return f"{_tokens(question.context_tokens)}: the model's context is {model.context_tokens}"
    if question.kv_cache_dtype == "fp8" and tables.family_in("no_fp8_kv_families", place.family):
        return "no FP8 KV cache on this GPU (sm80): its attention kernels refuse it"
    return ""


def _sequences(question: Question, layout: Layout, pool: BlockPool, batched: int) -> int:
    """Return the default, or fewer where the pool has fewer blocks: each sequence needs one for its state."""
    wanted = min(tables.rule("max_num_seqs"), batched)
    return max(1, min(wanted, pool.blocks(_pool_gib(question, layout, wanted, batched) * GIB)))


def _weights_gib(question: Question, layout: Layout) -> float:
    loaded = question.model.loaded_bytes(question.precision, question.vision, question.mtp_tokens > 0)
    return loaded / layout.tensor_parallel / GIB


def _overhead_gib(question: Question, sequences: int, batched: int) -> float:
    known = question.calibration.correction_gib if question.calibration else 0.0
    return tables.overhead_gib(question.model, sequences, batched, question.vision) + known


def _pool_gib(question: Question, layout: Layout, sequences: int, batched: int) -> float:
    """Return the KV cache of one GPU; negative where not even the weights fit."""
    if question.kv_cache_gib is not None:
        return question.kv_cache_gib
    budget = ceil(layout.place.memory_gib * GIB * question.gpu_memory_utilization) / GIB
    return budget - _weights_gib(question, layout) - _overhead_gib(question, sequences, batched)


def _too_large(question: Question, layout: Layout, sequences: int, batched: int) -> str:
    """Return which given size cannot be, empty for none."""
    given = question.kv_cache_gib
    excess = given + _weights_gib(question, layout) - layout.place.memory_gib if given else 0
    if excess > 0:
        return f"weights and a cache of {given:g} GiB exceed the memory by {excess:.1f} GiB"
    if sequences > batched:
        return f"max_num_seqs {sequences} is more than max_num_batched_tokens {batched}: vLLM refuses that"
    return ""


def _shortage(question: Question, pool: BlockPool, size_gib: float, sequences: int) -> str:
    """Return what the pool is too small for, empty for nothing. vLLM keeps one block for itself."""
    needed = pool.per_request(question.context_tokens, question.prefix_caching, question.mtp_tokens)
    blocks = pool.blocks(size_gib * GIB)
    if size_gib <= 0:
        return f"weights and overhead exceed the memory by {-size_gib:.1f} GiB"
    if blocks - 1 < needed:
        asked = f"one request of {_tokens(question.context_tokens)}"
        return f"{blocks} blocks of cache ({size_gib:.2f} GiB), {asked} needs {needed + 1}"
    if sequences > blocks:
        return f"max_num_seqs {sequences}: the pool has {blocks} blocks, and each sequence needs one for its state"
    return ""


def _candidate(
    question: Question, layout: Layout, pool: BlockPool, size: float, sequences: int, batched: int
) -> Candidate:
    blocks = pool.blocks(size * GIB)
    per_request = pool.per_request(question.context_tokens, question.prefix_caching, question.mtp_tokens)
    concurrency = blocks / per_request
    given = question.kv_cache_gib is not None
    return Candidate(
        layout=layout.label,
        tensor_parallel=layout.tensor_parallel,
        replicas=layout.replicas,
        mig_profile=layout.place.mig_profile,
        weights_gib=_weights_gib(question, layout),
        overhead_gib=None if given else _overhead_gib(question, sequences, batched),
        kv_cache_gib=size,
        block_tokens=pool.block_tokens,
        blocks=blocks,
        blocks_per_request=per_request,
        concurrency=concurrency,
        kv_tokens=int(concurrency * question.context_tokens),
        max_num_seqs=sequences,
        max_num_batched_tokens=batched,
        args=arguments(question, layout.tensor_parallel, sequences, batched),
        capacity=tuple(_capacity(question, pool, blocks)),
        decode_tokens_per_s=_decode_rate(question, layout),
        prefill_tokens_per_s=_prefill_rate(question.model, layout),
        overhead_origin=question.calibration.origin if question.calibration else ESTIMATED,
        notes=tuple(_notes(question, layout)),
    )


def _capacity(question: Question, pool: BlockPool, blocks: int) -> Iterator[tuple[int, float]]:
    """Yield context lengths, each twice the one before, and how many requests of each the pool holds."""
    tokens = SHORTEST_CONTEXT
    while tokens <= question.model.context_tokens:
        yield tokens, blocks / pool.per_request(tokens, question.prefix_caching, question.mtp_tokens)
        tokens *= 2


def arguments(question: Question, tensor_parallel: int, sequences: int, batched: int) -> tuple[str, ...]:
    """Return the arguments of `vllm serve` that make it what was planned."""
    given = question.kv_cache_gib
    memory = (
        ("--gpu-memory-utilization", f"{question.gpu_memory_utilization:g}")
        if given is None
        else ("--kv-cache-memory-bytes", str(int(given * GIB)))
    )
    speculative = json.dumps({"method": "mtp", "num_speculative_tokens": question.mtp_tokens})
    return (
        *("--tensor-parallel-size", str(tensor_parallel)),
        *("--max-model-len", str(question.context_tokens)),
        *("--max-num-seqs", str(sequences)),
        *("--max-num-batched-tokens", str(batched)),
        *memory,
        "--enable-prefix-caching" if question.prefix_caching else "--no-enable-prefix-caching",
        *(() if question.vision else ("--language-model-only",)),
        *(("--kv-cache-dtype", question.kv_cache_dtype) if question.kv_cache_dtype != "auto" else ()),
        *(("--speculative-config", speculative) if question.mtp_tokens else ()),
        *("--reasoning-parser", "qwen3"),
    )


def _decode_rate(question: Question, layout: Layout) -> float | None:
    """Return tokens/s of one request: each token reads the active weights once."""
    rate, model = layout.place.memory_gb_per_s, question.model
    if rate is None or layout.place.mig_profile:
        return None
    share = model.active_params / model.text_params
    read = model.loaded_bytes(question.precision, vision=False, mtp=False) * share / layout.tensor_parallel
    return rate * 1e9 * tables.efficiency("decode") / read


def _prefill_rate(model: ModelShape, layout: Layout) -> float | None:
    """Return tokens/s of one replica: two operations for each active parameter."""
    peak = layout.place.bf16_tflops
    if peak is None or layout.place.mig_profile:
        return None
    return peak * 1e12 * layout.tensor_parallel * tables.efficiency("prefill") / (2 * model.active_params)


def _notes(question: Question, layout: Layout) -> Iterator[str]:
    if question.precision == "fp8" and tables.family_in("weight_only_fp8_families", layout.place.family):
        yield "FP8 weights run through Marlin here: they save memory and decode bandwidth, prefill is no faster"
    if question.precision == "gptq-int4":
        yield "only MLP or expert weights of the official Int4 files have 4 bits, attention stays BF16"
    if question.mtp_tokens:
        yield "MTP shortens single requests; at high concurrency it costs throughput"
    if layout.place.mig_profile:
        yield "one process per MIG device"
    if layout.tensor_parallel > layout.place.joined:
        yield f"no NVLink between {layout.tensor_parallel} GPUs, but asked for: each token waits for PCIe"
    if layout.idle:
        yield f"{layout.idle} of {layout.place.count} GPUs stay idle"
