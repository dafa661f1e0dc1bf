"""Does the service hold what was planned: context, requests at the same time, size of its cache?"""

from __future__ import annotations

import json
import time

from qwenhost.expectations.smoke_tables import most_at_once, tolerance
from qwenhost.records.finding import Verdict, by_hand
from qwenhost.workflows.requests import Response
from qwenhost.workflows.smoke.prompts import fresh_tokens
from qwenhost.workflows.smoke.service import (
    COMPLETIONS,
    LONGEST_SECONDS,
    Seen,
    Service,
    Unanswered,
    judged,
    refused,
    said,
    short,
    skipped,
)

BURST_PROMPT, BURST_OUTPUT = 64, 32
"""Tokens of each request of a burst: long enough that all of them run side by side."""

FEW = 16
"""Requests of a burst where no plan tells how many; vLLM does not publish its max_num_seqs."""

PAUSE_SECONDS = 0.5
REPLAN = by_hand("Compare the service's options with `qwenhost plan`, and see that nothing else uses the GPU.")


def longest(service: Service) -> Seen:
    """The plan promised a context; a prompt of that length has to be read to the end."""
    limit = service.context_tokens
    promised = service.promise.context_tokens or limit
    if limit < promised:
        return judged(False, f"max_model_len {limit}", f"{promised} tokens", remedy=REPLAN)
    body = service.prompt_body(fresh_tokens(promised - 1))
    answer = service.post(COMPLETIONS, body, LONGEST_SECONDS)
    if answer.status != 200:
        return refused(answer, f"a prompt of {promised - 1} tokens is answered")
    read = json.loads(answer.body)["usage"]["prompt_tokens"]
    observed = f"{read} tokens read in {answer.seconds:.1f} s"
    return judged(read == promised - 1, observed, f"{promised - 1} tokens read")


def too_long(service: Service) -> Seen:
    """A request above the context is the client's mistake, and has to be told as such: 4xx, not 5xx or a crash."""
    limit = service.context_tokens
    answer = service.post(COMPLETIONS, service.prompt_body(fresh_tokens(limit + 1)))
    return judged(400 <= answer.status < 500, f"HTTP {answer.status}", "HTTP 4xx", said(answer))


def burst(service: Service) -> Seen:
    """The plan promised so many requests at the same time; all of them have to be answered in full."""
    count = _at_once(service)
    bodies = [
        service.prompt_body(fresh_tokens(BURST_PROMPT), max_tokens=BURST_OUTPUT, ignore_eos=True)
        for _ in range(count)
    ]
    began = time.monotonic()
    answers = service.fetch.burst(COMPLETIONS, service.json_headers, bodies, LONGEST_SECONDS)
    faults = [fault for answer in answers if (fault := _fault(answer))]
    seconds = time.monotonic() - began
    observed = f"{count - len(faults)} of {count} answered in {seconds:.1f} s"
    return judged(not faults, observed, f"{count} of {count} answered", "; ".join(sorted(set(faults)))[:300])


def at_rest(service: Service) -> Seen:
    """Requests that never end, or blocks that are never given back, fill the cache until nothing is served."""
    deadline = time.monotonic() + service.patience_seconds
    while (left := _left(service)) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return judged(not left, left or "nothing runs, waits or holds cache", "nothing runs, waits or holds cache")


def metrics(service: Service) -> Seen:
    """The cache's real size is published here; without it capacity is a guess."""
    told = service.counts()
    blocks, tokens = told.config.get("num_gpu_blocks", ""), told.block_size
    expected = "vllm:cache_config_info with blocks and block size"
    if not blocks.isdecimal() or not tokens:
        return judged(False, "no such metric", expected)
    return judged(True, f"{blocks} blocks of {tokens} tokens", expected)


def as_planned(service: Service) -> Seen:
    """A pool smaller than planned serves fewer requests: other processes, another version, other options."""
    planned = service.promise.kv_tokens
    if planned is None:
        return skipped("no plan to compare with (--plan FILE)")
    held = service.counts().config.get("kv_cache_size_tokens", "")
    if not held.isdecimal():
        return Seen(Verdict.UNKNOWN, "this version publishes no kv_cache_size_tokens")
    ratio = int(held) / planned - 1
    expected = f"{planned} KV tokens, {tolerance():.0%} more or less"
    if ratio > tolerance():
        return Seen(Verdict.NOTE, f"{held} KV tokens ({ratio:+.1%})", expected)
    return judged(ratio >= -tolerance(), f"{held} KV tokens ({ratio:+.1%})", expected, remedy=REPLAN)


def _at_once(service: Service) -> int:
    """Return the planned number of requests, within reason."""
    return min(service.promise.sequences or FEW, most_at_once())


def _fault(answer: Response | OSError) -> str:
    if isinstance(answer, OSError):
        return f"no answer: {answer or type(answer).__name__}"
    if answer.status != 200:
        return f"HTTP {answer.status}: {short(answer.body, 80)}"
    tokens = json.loads(answer.body)["usage"]["completion_tokens"]
    return "" if tokens == BURST_OUTPUT else f"{tokens} tokens instead of {BURST_OUTPUT}"


def _left(service: Service) -> str:
    """Return what the service still holds, empty for nothing."""
    told = service.counts()
    if told.running is None or told.kv_usage is None:
        raise Unanswered(Seen(Verdict.UNKNOWN, "this version counts neither requests nor use of its cache"))
    held = {"running": told.running, "waiting": told.waiting or 0}
    parts = [f"{count} {name}" for name, count in held.items() if count]
    return ", ".join([*parts, *([f"{told.kv_usage:.1%} of the cache"] if told.kv_usage else [])])
