"""The service that a smoke test asks: its requests in one place, and what a question may say of the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from qwenhost.expectations.smoke_tables import Expected, known_answers
from qwenhost.facts.vllm_metrics import METRICS, Metrics, metrics_of_port
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.finding import NO_REMEDY, Remedy, Verdict, by_hand
from qwenhost.records.promise import NO_PROMISE, Promise
from qwenhost.workflows.requests import BurstFetch, Response

PROBE_SECONDS = 10.0
ANSWER_SECONDS = 120.0
"""A first request may still compile kernels."""

LONGEST_SECONDS = 900.0
"""A prompt of the whole context, 262144 tokens, takes an A100 about a minute with the 27B."""

MAX_TOKENS = 512
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MATCH_NAME = by_hand("Compare the model name in the inventory with the one that /v1/models lists.")
PASS_KEY = by_hand("Ask with the service's own key: --api-key-file; on the host it is /etc/qwenhost/vllm/api_key.")


@dataclass(frozen=True)
class Seen:
    """What one question to the service showed."""

    verdict: Verdict
    observed: str
    expected: str = ""
    evidence: str = ""
    remedy: Remedy = NO_REMEDY


class Unanswered(Exception):
    """The service refused a request that it should answer; carries what was seen."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen.observed)
        self.seen = seen


@dataclass
class Service:
    """How to ask, and what is expected. An empty `name` means: whatever is served first."""

    fetch: BurstFetch
    key: str = ""
    name: str = ""
    answers: Sequence[Expected] = field(default_factory=known_answers)
    promise: Promise = NO_PROMISE
    patience_seconds: float = 10.0
    """How long the service may take to come to rest after a burst."""
    gpu_mib: Callable[[], Mapping[str, int]] | None = None
    """Tells what the service holds of each GPU now, or raises Unanswered; None where only its URL is known."""

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Response:
        """GET a path, with the key unless other headers are given."""
        return self.fetch("GET", path, self.bearer if headers is None else headers, "", PROBE_SECONDS)

    def post(self, path: str, body: str, seconds: float = ANSWER_SECONDS) -> Response:
        """POST a body as it is."""
        return self.fetch("POST", path, self.json_headers, body, seconds)

    def chat(self, text: str, **options: Any) -> Response:
        """Ask a question without thinking, at temperature 0; `options` are fields of the request."""
        return self.post(CHAT, self.chat_body(text, **options))

    def answer(self, text: str, **options: Any) -> dict[str, Any]:
        """Return the choice and the usage of a chat as {"message", "finish_reason", ..., "usage"}."""
        answer = self.chat(text, **options)
        if answer.status != 200:
            raise Unanswered(refused(answer, "HTTP 200"))
        told = json.loads(answer.body)
        return {**told["choices"][0], "usage": told.get("usage") or {}}

    def chat_body(self, text: str, **options: Any) -> str:
        """Return the request of a chat as JSON."""
        request = {
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        return json.dumps({**request, **options})

    def prompt_body(self, tokens: Sequence[int], **options: Any) -> str:
        """Return the request to complete a prompt given as token numbers, so that its length is exact."""
        request = {"model": self.model, "prompt": list(tokens), "max_tokens": 1, "temperature": 0}
        return json.dumps({**request, **options})

    @cached_property
    def models(self) -> Response:
        """The list of served models, asked once."""
        return self.get("/v1/models")

    @property
    def served(self) -> list[dict[str, Any]]:
        """What is served; empty where the service does not tell."""
        return list(json.loads(self.models.body)["data"]) if self.models.status == 200 else []

    @property
    def model(self) -> str:
        """The name that requests carry."""
        return self.name or next((str(model["id"]) for model in self.served), "")

    @property
    def context_tokens(self) -> int:
        """The longest request, as the service tells it. Raises Unanswered where it does not."""
        lengths = [model.get("max_model_len") for model in self.served if model.get("id") == self.model]
        if not lengths or not isinstance(lengths[0], int):
            raise Unanswered(Seen(Verdict.UNKNOWN, "/v1/models tells no max_model_len"))
        return lengths[0]

    def counts(self) -> Metrics:
        """Return what the service counts now. Raises Unanswered where it publishes nothing."""
        answer = self.get("/metrics", {})
        try:
            if answer.status != 200:
                raise Unparsable(f"HTTP {answer.status}")
            return next(iter(metrics_of_port(Capture(METRICS.name, "ok", answer.body)).values()))
        except Unparsable as error:
            expected = "metrics of vLLM at /metrics"
            raise Unanswered(Seen(Verdict.FAIL, str(error), expected, said(answer))) from error

    @property
    def bearer(self) -> dict[str, str]:
        """The header with the key."""
        return bearer(self.key)

    @property
    def json_headers(self) -> dict[str, str]:
        """The headers of a request with a body."""
        return {**self.bearer, "Content-Type": "application/json"}


def bearer(key: str) -> dict[str, str]:
    """Return the header with a key, none for an empty one."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def judged(ok: bool, observed: str, expected: str, evidence: str = "", remedy: Remedy = NO_REMEDY) -> Seen:
    """Return a pass or a failure."""
    return Seen(Verdict.PASS if ok else Verdict.FAIL, observed, expected, evidence, remedy)


def skipped(why: str, evidence: str = "") -> Seen:
    """The question does not arise, and that was seen."""
    return Seen(Verdict.SKIP, why, evidence=evidence)


def refused(answer: Response, expected: str) -> Seen:
    """A request that should have been answered was not."""
    remedy = {401: PASS_KEY, 404: MATCH_NAME}.get(answer.status, NO_REMEDY)
    return Seen(Verdict.FAIL, f"HTTP {answer.status}", expected, said(answer), remedy)


def text_of(choice: Mapping[str, Any]) -> str:
    """Return the text of an answer, empty for none."""
    return str(choice["message"].get("content") or "")


def said(answer: Response) -> str:
    """Return the beginning of a body on one line."""
    return short(answer.body)


def short(text: str, limit: int = 160) -> str:
    """Return a text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
