"""Requests that a host sends to its own served model: the key stays on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenhost.expectations.declared import read_declared
from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Verdict
from qwenhost.workflows.served import KEY_FILE, KEY_ON_HOST, HostFetch, services, smoke_instances

DECLARED = {
    "qwenhost_vllm": {
        "version": "0.32.0",
        "model": {"name": "tiny", "path": "/srv/models/tiny"},
        "instances": [{"name": "a", "gpus": [0], "port": 8000}, {"name": "b", "gpus": [1], "port": 8001}],
    }
}


class Host:
    """Keeps the requests that reach the host; answers each alike."""

    def __init__(self, status: int = 200, body: str = "{}") -> None:
        self.requests: list[dict[str, Any]] = []
        self._answer = {"status": status, "headers": {"Content-Type": "application/json"}, "body": body}

    def __call__(self, request: dict[str, Any]) -> Mapping[str, Any]:
        self.requests.append(request)
        return self._answer


def test_the_key_is_put_in_on_the_host_alone() -> None:
    host = Host()
    headers = {"Authorization": f"Bearer {KEY_ON_HOST}", "Accept": "application/json"}
    HostFetch("http://127.0.0.1:8000", host)("POST", "/v1/chat/completions", headers, "{}", 5.0)
    assert host.requests == [
        {
            "base_url": "http://127.0.0.1:8000",
            "method": "POST",
            "path": "/v1/chat/completions",
            "headers": {"Accept": "application/json"},
            "body": "{}",
            "timeout_seconds": 5.0,
            "bearer_file": KEY_FILE,
        }
    ]


def test_a_request_without_key_stays_without() -> None:
    host = Host()
    HostFetch("http://127.0.0.1:8000", host)("GET", "/v1/models", {"Authorization": "Bearer wrong"}, "", 5.0)
    assert host.requests[0]["bearer_file"] == ""
    assert host.requests[0]["headers"] == {"Authorization": "Bearer wrong"}


def test_the_answer_comes_back_with_plain_names() -> None:
    answer = HostFetch("http://127.0.0.1:8000", Host(503, "loading"))("GET", "/health", {}, "", 5.0)
    assert (answer.status, answer.body) == (503, "loading")
    assert answer.headers == {"content-type": "application/json"}


def unseen() -> Bundle:
    raise AssertionError("nobody looks at the GPUs without --full")


def test_every_declared_instance_is_asked_at_its_port() -> None:
    host = Host(503, "loading")
    declared = read_declared(DECLARED, host="h1", where="test")
    assert [name for name, _ in services(declared, host, unseen)] == ["a", "b"]
    findings = smoke_instances(declared, host, unseen)
    assert {finding.subject for finding in findings} == {"vllm@a", "vllm@b"}
    assert {request["base_url"] for request in host.requests} == {"http://127.0.0.1:8000", "http://127.0.0.1:8001"}
    assert Verdict.FAIL in {finding.verdict for finding in findings}
    assert Verdict.PASS not in {finding.verdict for finding in findings if "auth" not in finding.check}


def test_nothing_declared_is_nothing_asked() -> None:
    host = Host()
    assert smoke_instances(read_declared({}, host="h1", where="test"), host, unseen) == ()
    assert host.requests == []
