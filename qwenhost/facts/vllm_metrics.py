"""What a vLLM service counts itself: its Prometheus page, asked once per declared port or kept by somebody."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source, http

METRICS = Source("vllm-metrics", "http", looks_like=r"^(?:# (?:HELP|TYPE) )?vllm:num_requests_running\b")
"""Asked once per declared port, as vllm-metrics:PORT."""

RECORDED = 0
"""Port of a page that somebody kept."""

_SAMPLE = re.compile(r"^(?P<name>vllm:\w+)(?:\{(?P<labels>.*)\})? (?P<value>[-+\w.]+)(?: \d+)?$", re.MULTILINE)
_LABEL = re.compile(r'\b(\w+)="([^"]*)"')


def metrics_sources(ports: Iterable[int]) -> tuple[Source, ...]:
    """Return what to ask the instances on these ports."""
    return tuple(http(f"{METRICS.name}:{port}", f"http://127.0.0.1:{port}/metrics") for port in ports)


@dataclass(frozen=True)
class Metrics:
    """Sums over the engines of one service; None for what its version does not count.

    `prompts_asked` and `prompts_hit` count tokens that were looked up and found in the prefix cache.
    """

    running: int | None
    waiting: int | None
    preemptions: int | None
    finished: int | None
    prompts_asked: int | None
    prompts_hit: int | None
    kv_usage: float | None
    """Share of the KV cache that requests hold, 0 to 1; of several engines the sum."""
    config: Mapping[str, str]
    """Labels of cache_config_info, such as block_size and kv_cache_max_concurrency."""

    @property
    def block_size(self) -> int | None:
        """Tokens per block of the KV cache."""
        text = self.config.get("block_size", "")
        return int(text) if text.isdecimal() else None

    @property
    def concurrency(self) -> float | None:
        """How many requests of full length fit into the cache at once."""
        text = self.config.get("kv_cache_max_concurrency", "")
        return float(text) if re.fullmatch(r"[\d.]+", text) else None


def metrics_of_port(capture: Capture) -> Mapping[int, Metrics]:
    """Return port -> what the service there counts, of a page alone or as the probe brings it."""
    _, _, port = capture.source.partition(":")
    text = _body(capture.text) if port else capture.text
    sums = _sums(text)
    if "num_requests_running" not in sums:
        raise Unparsable("no metrics of vLLM")
    return {int(port or RECORDED): _metrics(sums, dict(_config(text)))}


def _body(text: str) -> str:
    answer = json.loads(text)
    if answer["status"] != 200:
        raise Unparsable(f"HTTP {answer['status']}")
    return str(answer["body"])


def _sums(text: str) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for sample in _SAMPLE.finditer(text):
        sums[sample["name"].removeprefix("vllm:").removesuffix("_total")] += float(sample["value"])
    return dict(sums)


def _config(text: str) -> Iterator[tuple[str, str]]:
    for sample in _SAMPLE.finditer(text):
        if sample["name"] == "vllm:cache_config_info":
            yield from _LABEL.findall(sample["labels"] or "")


def _metrics(sums: Mapping[str, float], config: Mapping[str, str]) -> Metrics:
    def count(*names: str) -> int | None:
        return next((int(sums[name]) for name in names if name in sums), None)

    return Metrics(
        running=count("num_requests_running"),
        waiting=count("num_requests_waiting"),
        preemptions=count("num_preemptions"),
        finished=count("request_success"),
        prompts_asked=count("prefix_cache_queries", "gpu_prefix_cache_queries"),
        prompts_hit=count("prefix_cache_hits", "gpu_prefix_cache_hits"),
        kv_usage=sums.get("kv_cache_usage_perc"),
        config=config,
    )
