"""Ask a served model a question and look at what comes back: does it really serve?

A service can answer /health while every request fails, so only an answer with the right content counts.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import NO_REMEDY, Finding, Remedy, Verdict, by_hand
from qwenhost.workflows.requests import Fetch, Response, UrlFetch

QUESTION = "What is the capital of France?"
EXPECT = r"\bParis\b"
PROBE_TIMEOUT_SECONDS = 10.0
ANSWER_TIMEOUT_SECONDS = 120.0
"""A first request may still compile kernels."""

MAX_TOKENS = 512
_HEALTH = "smoke.health"
_LOOK = by_hand("Read the last lines of `journalctl -u 'vllm@*'` on the host.")
_MATCH_NAME = by_hand("Compare the model name in the inventory with the one that /v1/models lists.")
_PASS_KEY = by_hand(
    "Ask with the service's own key: --api-key-file; on the host it is /etc/qwenhost/vllm/api_key."
)
_LOCK = by_hand("Give the service an API key: /etc/qwenhost/vllm/api_key on the host.")
_WHY = {
    _HEALTH: "Without it nothing that follows can be asked.",
    "smoke.served-name": "Clients name the model in each request; any other name is refused with 404.",
    "smoke.completion": "Health can answer while requests fail; only a right answer shows that it serves.",
    "smoke.streaming": "Chat clients read streams; a proxy or parser that breaks them is seen nowhere else.",
    "smoke.key-refused": "An open service lets anybody who reaches the port use the GPUs.",
    "smoke.metrics": "The cache's real size is published here; without it capacity is a guess.",
}


@dataclass(frozen=True)
class Seen:
    """What one question to the service showed."""

    verdict: Verdict
    observed: str
    expected: str
    evidence: str = ""
    remedy: Remedy = NO_REMEDY


@dataclass(frozen=True)
class Question:
    """How to ask, and what has to be in the answer (`expect`, a regular expression)."""

    fetch: Fetch
    key: str
    model: str
    text: str
    expect: re.Pattern[str]


def smoke(
    base_url: str,
    key: str = "",
    model: str = "",
    *,
    question: str = QUESTION,
    expect: str = EXPECT,
    fetch: Fetch | None = None,
) -> tuple[Finding, ...]:
    """Return one finding per smoke check about the service at `base_url`.

    `fetch` carries the requests (through a tunnel, say); without it they go straight to the URL. An empty
    `model` means: whatever is served first. Raises QwenhostError for a bad URL or expression.
    """
    ask = Question(fetch or UrlFetch(base_url), key, model, question, _compiled(expect))
    health = _seen(health_of, ask)
    findings = [_finding(_HEALTH, base_url, health)]
    if health.verdict is Verdict.FAIL and not health.evidence:
        return (*findings, *(_unasked(check, base_url) for check in CHECKS))
    return (*findings, *(_finding(name, base_url, _seen(look, ask)) for name, look in CHECKS.items()))


def answer_text(fetch: Fetch, key: str, model: str, question: str) -> str:
    """Return the model's answer to one question. Raises OSError when there is none."""
    answer = _chat(Question(fetch, key, model, question, _compiled("")), stream=False)
    if answer.status != 200:
        raise OSError(f"HTTP {answer.status}: {_said(answer)}")
    return str(json.loads(answer.body)["choices"][0]["message"].get("content") or "")


def health_of(ask: Question) -> Seen:
    """Is the engine alive?"""
    answer = ask.fetch("GET", "/health", {}, "", PROBE_TIMEOUT_SECONDS)
    verdict = Verdict.PASS if answer.status == 200 else Verdict.FAIL
    return Seen(verdict, f"HTTP {answer.status}", "HTTP 200", _said(answer) or f"HTTP {answer.status}")


def served_name(ask: Question) -> Seen:
    """Is the model listed under the name that clients will use?"""
    answer = ask.fetch("GET", "/v1/models", _bearer(ask.key), "", PROBE_TIMEOUT_SECONDS)
    names = _served(answer)
    if answer.status != 200:
        return _refused(answer, ask.model or "a model")
    verdict = Verdict.PASS if names and (not ask.model or ask.model in names) else Verdict.FAIL
    observed = ", ".join(names) or "no model"
    return Seen(verdict, observed, ask.model or "a model", _said(answer), _MATCH_NAME)


def completion(ask: Question) -> Seen:
    """Does an answer come, and is it right?"""
    answer = _chat(ask, stream=False)
    if answer.status != 200:
        return _refused(answer, f"/{ask.expect.pattern}/")
    choice = json.loads(answer.body)["choices"][0]
    text = choice["message"].get("content") or ""
    verdict = Verdict.PASS if ask.expect.search(text) else Verdict.FAIL
    return Seen(
        verdict, _short(text) or "no text", f"/{ask.expect.pattern}/", f"{choice['finish_reason']}: {text}"
    )


def streaming(ask: Question) -> Seen:
    """Does a stream bring text, and does it end as it should?"""
    expected = "text, then [DONE]"
    answer = _chat(ask, stream=True)
    if answer.status != 200:
        return _refused(answer, expected)
    events = [line[5:].strip() for line in answer.body.splitlines() if line.startswith("data:")]
    pieces = [piece for event in events if event != "[DONE]" for piece in _pieces(json.loads(event))]
    done = bool(events) and events[-1] == "[DONE]"
    observed = f"{len(pieces)} pieces of text, {'[DONE]' if done else 'no [DONE]'}"
    verdict = Verdict.PASS if pieces and done else Verdict.FAIL
    return Seen(verdict, observed, expected, _short("".join(pieces)))


def key_refused(ask: Question) -> Seen:
    """Is a request turned away when it has no key or a wrong one?"""
    expected = "HTTP 401 without a key, HTTP 401 with a wrong key"
    wrong = {"wrong key": _bearer(secrets.token_hex(16)), "no key": {}}
    got = {
        name: ask.fetch("GET", "/v1/models", headers, "", PROBE_TIMEOUT_SECONDS).status
        for name, headers in wrong.items()
    }
    observed = ", ".join(f"{name}: HTTP {status}" for name, status in got.items())
    verdict = Verdict.PASS if set(got.values()) == {401} else Verdict.FAIL
    return Seen(verdict, observed, expected, observed, _LOCK)


def metrics(ask: Question) -> Seen:
    """Does the service publish the size of its cache?"""
    answer = ask.fetch("GET", "/metrics", {}, "", PROBE_TIMEOUT_SECONDS)
    expected = "vllm:cache_config_info with blocks and block size"
    sizes = cache_sizes(answer.body) if answer.status == 200 else None
    if sizes is None:
        return Seen(Verdict.FAIL, f"HTTP {answer.status}, no such metric", expected, _said(answer))
    blocks, tokens = sizes
    return Seen(Verdict.PASS, f"{blocks} blocks of {tokens} tokens", expected)


def cache_sizes(text: str) -> tuple[int, int] | None:
    """Return (blocks, tokens per block) of the first engine in a /metrics page; None when it is not there."""
    line = next((line for line in text.splitlines() if line.startswith("vllm:cache_config_info{")), "")
    labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', line))
    try:
        return int(labels["num_gpu_blocks"]), int(labels["block_size"])
    except (KeyError, ValueError):
        return None


CHECKS: Mapping[str, Callable[[Question], Seen]] = {
    "smoke.served-name": served_name,
    "smoke.completion": completion,
    "smoke.streaming": streaming,
    "smoke.key-refused": key_refused,
    "smoke.metrics": metrics,
}


def _seen(look: Callable[[Question], Seen], ask: Question) -> Seen:
    """No answer, and an answer of an unknown form, are failures that were observed."""
    try:
        return look(ask)
    except OSError as error:
        return Seen(Verdict.FAIL, f"no answer: {error or type(error).__name__}", "an answer")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        return Seen(Verdict.FAIL, f"answer of an unknown form: {type(error).__name__}: {error}", "an answer")


def _finding(check: str, subject: str, seen: Seen) -> Finding:
    bad = seen.verdict is Verdict.FAIL
    remedy = (seen.remedy if seen.remedy is not NO_REMEDY else _LOOK) if bad else NO_REMEDY
    return Finding(
        check,
        subject,
        seen.verdict,
        seen.observed,
        seen.expected,
        _WHY[check],
        remedy,
        evidence=seen.evidence,
    )


def _unasked(check: str, subject: str) -> Finding:
    why = _WHY[check]
    return Finding(check, subject, Verdict.UNKNOWN, "not asked", why=why, source="http", cause=_HEALTH)


def _refused(answer: Response, expected: str) -> Seen:
    remedy = {401: _PASS_KEY, 404: _MATCH_NAME}.get(answer.status, NO_REMEDY)
    return Seen(Verdict.FAIL, f"HTTP {answer.status}", expected, _said(answer), remedy)


def _chat(ask: Question, *, stream: bool) -> Response:
    request = {
        "model": ask.model or _first_served(ask),
        "messages": [{"role": "user", "content": ask.text}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": stream,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    headers = {**_bearer(ask.key), "Content-Type": "application/json"}
    return ask.fetch("POST", "/v1/chat/completions", headers, json.dumps(request), ANSWER_TIMEOUT_SECONDS)


def _first_served(ask: Question) -> str:
    names = _served(ask.fetch("GET", "/v1/models", _bearer(ask.key), "", PROBE_TIMEOUT_SECONDS))
    return names[0] if names else ""


def _served(answer: Response) -> list[str]:
    return [str(model["id"]) for model in json.loads(answer.body)["data"]] if answer.status == 200 else []


def _pieces(event: Mapping[str, Any]) -> list[str]:
    return [text for choice in event["choices"] if (text := choice["delta"].get("content"))]


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _said(answer: Response) -> str:
    return _short(answer.body)


def _short(text: str, limit: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def _compiled(expect: str) -> re.Pattern[str]:
    try:
        return re.compile(expect)
    except re.error as error:
        raise QwenhostError(f"not a regular expression: {expect!r}: {error}") from error
