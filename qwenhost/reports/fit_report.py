"""A serving plan for machines and for people."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict

from qwenhost.records.fit import Candidate, Fit, Question

SCHEMA = 1
DIGITS = 3
CHART_WIDTH = 50


def fit_json(fits: dict[str, Fit]) -> str:
    """Return one plan by itself, several by host under "hosts"."""
    content = {host: _fields(fit) for host, fit in fits.items()}
    whole = next(iter(content.values())) if list(content) == [""] else {"hosts": content}
    return json.dumps({"schema": SCHEMA, **whole}, indent=1)


def _fields(fit: Fit) -> dict[str, object]:
    return {
        "chosen": _candidate(fit.chosen) if fit.chosen else None,
        "reason": fit.reason,
        "disk_gib": round(fit.disk_gib, DIGITS),
        "ram_gib": round(fit.ram_gib, DIGITS),
        "candidates": [_candidate(candidate) for candidate in fit.candidates],
        "refused": [asdict(refused) for refused in fit.refused],
    }


def _candidate(one: Candidate) -> dict[str, object]:
    fields = asdict(one)
    fields["capacity"] = [{"tokens": tokens, "requests": round(held, DIGITS)} for tokens, held in one.capacity]
    return {key: round(value, DIGITS) if isinstance(value, float) else value for key, value in fields.items()}


def asked_of(question: Question) -> str:
    """Return what was asked, in a few words."""
    return f"{question.model.name} {question.precision}, {question.context_tokens} tokens"


def fit_lines(fit: Fit, question: Question) -> Iterator[str]:
    """Yield the chosen layout with its command, then all others and why not."""
    asked = asked_of(question)
    if fit.chosen is None:
        yield f"{asked}: does not fit ({fit.reason})"
    else:
        yield f"{asked}: {fit.chosen.layout}, {fit.reason}"
        yield from _chosen_lines(fit.chosen)
        yield f"  on the host: {fit.disk_gib:.0f} GiB of disk for the checkpoint, {fit.ram_gib:.0f} GiB of RAM"
    others = [candidate for candidate in fit.candidates if candidate is not fit.chosen]
    yield from _table(others)
    if fit.refused:
        yield "Not possible:"
        yield from (f"  {refused.layout}: {refused.reason}" for refused in fit.refused)


def _chosen_lines(chosen: Candidate) -> Iterator[str]:
    given = chosen.overhead_gib is None
    overhead = "" if given else f", overhead {chosen.overhead_gib:.2f} GiB ({chosen.overhead_origin})"
    yield f"  per GPU: weights {chosen.weights_gib:.2f} GiB, KV cache {chosen.kv_cache_gib:.2f} GiB{overhead}"
    yield (
        f"  per replica: {chosen.kv_tokens:,} KV tokens, {chosen.concurrency:.2f} requests of that context "
        f"({chosen.blocks} blocks of {chosen.block_tokens} tokens, {chosen.blocks_per_request} a request)"
    )
    if chosen.decode_tokens_per_s and chosen.prefill_tokens_per_s:
        yield (
            f"  estimates: {chosen.decode_tokens_per_s:.0f} tokens/s for one request, "
            f"{chosen.prefill_tokens_per_s:,.0f} prompt tokens/s a replica"
        )
    yield from (f"  note: {text}" for text in chosen.notes)
    yield "  requests that one replica holds, by tokens of each:"
    most = max(requests for _, requests in chosen.capacity)
    for tokens, requests in chosen.capacity:
        yield f"  {tokens:10,} {requests:9.1f} {'#' * round(CHART_WIDTH * requests / most)}".rstrip()
    yield f"  vllm serve MODEL {shlex.join(chosen.args)}"


def _table(candidates: list[Candidate]) -> Iterator[str]:
    if candidates:
        yield "Also possible:" + " requests of that context in a replica, in all:".rjust(60)
    for one in candidates:
        yield f"  {one.layout:22} {one.concurrency:10.2f} {one.requests:10.1f}"
