"""How a model can be served on some GPUs: what was asked, what would hold it, and what would not."""

from __future__ import annotations

from dataclasses import dataclass

from qwenhost.records.calibration import Calibration
from qwenhost.records.model_shape import ModelShape

ESTIMATED = "estimated"


@dataclass(frozen=True)
class Place:
    """One GPU, or one MIG device of it, `count` times. None: not known, so nothing is estimated from it.

    `joined`: how many GPUs can work as one (1: no NVLink between them, or MIG devices).
    """

    label: str
    count: int
    memory_gib: float
    """What CUDA reports as total, which is less than the board's size."""
    joined: int
    family: str
    mig_profile: str = ""
    memory_gb_per_s: float | None = None
    bf16_tflops: float | None = None


@dataclass(frozen=True)
class Question:
    """What is asked of every layout. None: the planner chooses."""

    model: ModelShape
    precision: str = "bf16"
    context_tokens: int = 32768
    prefix_caching: bool = True
    mtp_tokens: int = 0
    vision: bool = False
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: float = 0.92
    tensor_parallel: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_gib: float | None = None
    """Size of the pool per GPU; the overhead is not estimated then, and the arithmetic is exact."""
    kernel_block_tokens: int = 16
    calibration: Calibration | None = None
    """Corrects the estimated overhead where the target was measured."""


@dataclass(frozen=True)
class Candidate:
    """A layout that starts and holds at least one request of the asked context. Sizes are per GPU."""

    layout: str
    tensor_parallel: int
    replicas: int
    mig_profile: str
    weights_gib: float
    overhead_gib: float | None
    """None where the size of the pool was given."""
    kv_cache_gib: float
    block_tokens: int
    blocks: int
    blocks_per_request: int
    concurrency: float
    """Requests of the asked context that one replica's pool holds; vLLM logs the same figure."""
    kv_tokens: int
    max_num_seqs: int
    max_num_batched_tokens: int
    args: tuple[str, ...]
    capacity: tuple[tuple[int, float], ...]
    """Tokens of a request -> how many of them one replica's pool holds."""
    decode_tokens_per_s: float | None = None
    """Estimate for one request alone, from memory bandwidth."""
    prefill_tokens_per_s: float | None = None
    """Estimate for one replica, from BF16 peak."""
    overhead_origin: str = ESTIMATED
    notes: tuple[str, ...] = ()

    @property
    def requests(self) -> float:
        """Requests of the asked context that all replicas hold together."""
        return self.replicas * min(self.concurrency, self.max_num_seqs)


@dataclass(frozen=True)
class Refused:
    """A layout that cannot be, and why."""

    layout: str
    reason: str


@dataclass(frozen=True)
class Fit:
    """The answer. `chosen` is one of the candidates, None when there are none; `reason` says why that one."""

    chosen: Candidate | None
    reason: str
    candidates: tuple[Candidate, ...]
    refused: tuple[Refused, ...]
    disk_gib: float = 0.0
    """What the host needs for the checkpoint."""
    ram_gib: float = 0.0
    """What the host's processes of the chosen layout need, page cache not counted."""
