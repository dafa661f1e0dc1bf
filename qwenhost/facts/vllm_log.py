"""How each vLLM service started and fared, by its own log: the cause stands above the last line."""

from __future__ import annotations

from qwenhost.facts.vllm_lines import starts_in
from qwenhost.facts.vllm_start import VllmStart, last_start
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, recorded

JOURNAL = command(
    "vllm-journal",
    *("journalctl", "--no-pager", "--boot", "--all", "--output=with-unit", "--unit=vllm*", "--lines=2000"),
    good_exits=(0, 1),
)
"""Ends with 1 and says nothing where no such unit ever wrote a line."""

LOG = recorded(
    "vllm-log",
    r"vLLM API server version|\((?:APIServer|Engine|VllmWorker|Worker|RayWorker)[\w -]*(?:rank=\d+ )?pid=\d+[,)]"
    r"|Initializing an? (?:V\d )?LLM engine|Avg prompt throughput|is preempted by PreemptionMode"
    r"|max_model_len|max_num_seqs|max_num_batched_tokens|gpu_memory_utilization|max seq len \("
    r"|KV cache (?:memory|size|usage|is needed)|for the cache blocks|Mamba cache|num_cache_lines"
    r"|attention block size|does not recogni[sz]e this architecture|Model architectures? \[|fp8e4nv"
    r"|for FP8 computation|Free memory on device|base 10: '(?:MIG|GPU)-|(?:vllm(?: serve)?|api_server\.py): error:"
    r"|OutOfMemoryError: CUDA out of memory|No module named 'vllm"
    r"|/vllm/(?:v1|engine|worker)/|-packages/vllm/|/bin/vllm\"|vllm\.v1\.|vllm@[\w-]+\.service",
)


def starts_in_journal(capture: Capture) -> tuple[VllmStart, ...]:
    """Return the last start of each unit; none where none started since the boot."""
    return _last_starts(capture.text)


def starts_in_file(capture: Capture) -> tuple[VllmStart, ...]:
    """Return the last start of each service; raises Unparsable where no line of the log is known."""
    found = _last_starts(capture.text)
    if not found:
        raise Unparsable("no line that vLLM's log is known by")
    return found


def _last_starts(text: str) -> tuple[VllmStart, ...]:
    read = (last_start(starts) for starts in starts_in(text).values())
    return tuple(start for start in read if start.events or start.version or start.root)
