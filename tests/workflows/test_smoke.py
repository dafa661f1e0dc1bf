"""The smoke test against a small HTTP server that behaves like a vLLM, and then misbehaves."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import Finding, Verdict
from qwenhost.workflows.requests import Response, UrlFetch
from qwenhost.workflows.smoke import CHECKS, cache_sizes, smoke

KEY = "sesame"
METRICS = 'vllm:cache_config_info{block_size="256",cache_dtype="auto",num_gpu_blocks="8192"} 1.0\n'


@dataclass
class Service:
    """What the server answers; a test changes one thing."""

    health: int = 200
    names: tuple[str, ...] = ("tiny",)
    text: str | None = "The capital of France is Paris."
    pieces: tuple[str, ...] = ("Par", "is")
    ending: str = "data: [DONE]\n\n"
    metrics: str = METRICS
    guarded: bool = True
    completion_status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: str, timeout_seconds: float
    ) -> Response:
        return Response(*self.answer(path, dict(headers), body))

    def answer(self, path: str, headers: dict[str, str], body: str) -> tuple[int, dict[str, str], str]:
        if path == "/health":
            return self.health, {}, ""
        if path == "/metrics":
            return 200, {}, self.metrics
        if self.guarded and headers.get("Authorization") != f"Bearer {KEY}":
            return 401, {}, '{"error":"Unauthorized"}'
        if path == "/v1/models":
            return 200, {}, json.dumps({"data": [{"id": name} for name in self.names]})
        return self.chat(json.loads(body))

    def chat(self, request: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        self.asked.append(request)
        if self.completion_status != 200:
            return self.completion_status, {}, '{"error":{"message":"broken"}}'
        if not request["stream"]:
            choice = {"message": {"content": self.text}, "finish_reason": "stop"}
            return 200, {}, json.dumps({"choices": [choice]})
        chunks = [{"choices": [{"delta": {"role": "assistant"}}]}]
        chunks += [{"choices": [{"delta": {"content": piece}}]} for piece in self.pieces]
        return 200, {}, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + self.ending


def verdicts(findings: tuple[Finding, ...]) -> dict[str, Verdict]:
    return {finding.check.removeprefix("smoke."): finding.verdict for finding in findings}


def ask(service: Service, **options: Any) -> tuple[Finding, ...]:
    return smoke("http://host:8000", KEY, fetch=service, **options)


def test_sound_service_passes_everything() -> None:
    findings = ask(Service(), model="tiny")
    assert set(verdicts(findings).values()) == {Verdict.PASS}
    assert [finding.check for finding in findings] == ["smoke.health", *CHECKS]


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"names": ("other",)}, {"served-name"}),
        ({"names": ()}, {"served-name"}),
        ({"text": "I cannot say."}, {"completion"}),
        ({"text": None}, {"completion"}),
        ({"pieces": ()}, {"streaming"}),
        ({"ending": ""}, {"streaming"}),
        ({"ending": "data: {not json}\n\n"}, {"streaming"}),
        ({"metrics": "python_info 1.0\n"}, {"metrics"}),
        ({"metrics": METRICS.replace("8192", "None")}, {"metrics"}),
        ({"guarded": False}, {"key-refused"}),
        ({"completion_status": 500}, {"completion", "streaming"}),
        ({"health": 503}, {"health"}),
    ],
)
def test_one_fault_fails_its_own_check(change: dict[str, Any], failing: set[str]) -> None:
    found = verdicts(ask(Service(**change), model="tiny"))
    assert {name for name, verdict in found.items() if verdict is Verdict.FAIL} == failing
    assert {verdict for name, verdict in found.items() if name not in failing} == {Verdict.PASS}


def test_wrong_key_is_told_as_such() -> None:
    findings = smoke("http://host:8000", "wrong", "tiny", fetch=Service())
    refused = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert {finding.check for finding in refused} == {
        "smoke.served-name",
        "smoke.completion",
        "smoke.streaming",
    }
    assert all("key" in finding.remedy.text for finding in refused)


def test_unreachable_service_fails_once_and_leaves_the_rest_unknown() -> None:
    findings = smoke("http://127.0.0.1:1", KEY, "tiny")
    assert findings[0].verdict is Verdict.FAIL
    assert {finding.verdict for finding in findings[1:]} == {Verdict.UNKNOWN}
    assert {finding.cause for finding in findings[1:]} == {"smoke.health"}


def test_silent_request_is_a_failure_that_was_seen() -> None:
    class Silent(Service):
        def chat(self, request: dict[str, Any]) -> tuple[int, dict[str, str], str]:
            raise TimeoutError("timed out")

    found = verdicts(ask(Silent(), model="tiny"))
    assert found["completion"] is Verdict.FAIL
    assert found["streaming"] is Verdict.FAIL


def test_without_a_model_the_first_served_is_asked() -> None:
    service = Service()
    assert set(verdicts(ask(service)).values()) == {Verdict.PASS}
    assert {request["model"] for request in service.asked} == {"tiny"}


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8000", "http://", "http://h:port", ""])
def test_bad_url_is_named(url: str) -> None:
    with pytest.raises(QwenhostError, match="not a base URL"):
        smoke(url, KEY)


def test_bad_expression_is_named() -> None:
    with pytest.raises(QwenhostError, match="not a regular expression"):
        ask(Service(), expect="(")


def test_cache_sizes_reads_quoted_labels() -> None:
    assert cache_sizes('vllm:cache_config_info{a="x\\"y",num_gpu_blocks="7",block_size="16"} 1') == (7, 16)


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path == "/moved" else 200)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/base"
        running.shutdown()
        thread.join()


def test_url_fetch_keeps_the_base_path_and_follows_no_redirect(server: str) -> None:
    fetch = UrlFetch(server)
    assert fetch("GET", "/health", {}, "", 5).body == "/base/health"
    moved = UrlFetch(server.removesuffix("/base"))("GET", "/moved", {}, "", 5)
    assert moved.status == 302
    assert moved.headers["location"] == "/elsewhere"
