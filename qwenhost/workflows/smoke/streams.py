"""Do streams bring what chat clients read?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from qwenhost.records.finding import Verdict, by_hand
from qwenhost.workflows.requests import Response
from qwenhost.workflows.smoke.service import Seen, Service, judged, refused, short

DONE = "[DONE]"
EXPECTED = "role, text, finish_reason, usage, [DONE], in this order"
UNBUFFERED = by_hand("Switch off buffering of answers in the proxy before vLLM (nginx: proxy_buffering off).")
LONG_SECONDS, AT_ONCE = 1.0, 0.95
"""An answer that took this long, and whose first bytes came only after this share of it, was held back."""


def streaming(service: Service) -> Seen:
    """Chat clients read streams; a proxy or parser that breaks them is seen nowhere else."""
    first = service.answers[0]
    answer = service.chat(first.question, stream=True, stream_options={"include_usage": True})
    if answer.status != 200:
        return refused(answer, EXPECTED)
    lines = [line[5:].strip() for line in answer.body.splitlines() if line.startswith("data:")]
    events = [json.loads(line) for line in lines if line != DONE]
    pieces = list(_pieces(events))
    text = "".join(pieces)
    faults = [*_faults(lines, events), *(() if first.expect.search(text) else ("a wrong text",))]
    if not faults and _held_back(answer):
        return Seen(Verdict.WARN, "the whole stream came at once", EXPECTED, short(text), UNBUFFERED)
    return judged(not faults, ", ".join(faults) or f"{len(pieces)} pieces of text", EXPECTED, short(text))


def _faults(lines: Sequence[str], events: Sequence[dict[str, Any]]) -> Iterator[str]:
    kinds = [kind for event in events for kind in _kinds(event)]
    if "text" not in kinds:
        yield "no text"
    if not lines or lines[-1] != DONE:
        yield "no [DONE] at its end"
    for kind in ("role", "finish_reason", "usage"):
        if kind not in kinds:
            yield f"no {kind}"
    ordered = sorted(kinds, key=("role", "text", "finish_reason", "usage").index)
    if kinds != ordered:
        yield f"out of order: {', '.join(dict.fromkeys(kinds))}"


def _kinds(event: dict[str, Any]) -> Iterator[str]:
    """Yield what one event brings."""
    for choice in event["choices"]:
        delta = choice["delta"]
        if delta.get("role") and not delta.get("content"):
            yield "role"
        if delta.get("content"):
            yield "text"
        if choice.get("finish_reason"):
            yield "finish_reason"
    if (event.get("usage") or {}).get("completion_tokens"):
        yield "usage"


def _pieces(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        yield from (text for choice in event["choices"] if (text := choice["delta"].get("content")))


def _held_back(answer: Response) -> bool:
    return answer.seconds >= LONG_SECONDS and answer.first_seconds >= AT_ONCE * answer.seconds
