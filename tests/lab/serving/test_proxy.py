"""The proxy before the service: what passes, how answers stream, who is let in with the key that was changed."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.serving.conftest import HOST, KEY, LAB, PORT, Serving


@contextmanager
def asked(method: str, path: str, key: str = KEY, body: str = "") -> Iterator[http.client.HTTPResponse]:
    """The proxy's answer to this machine; its certificate is the test's own."""
    connection = http.client.HTTPSConnection(
        LAB.named(HOST).address, PORT, timeout=120, context=ssl._create_unverified_context()
    )
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, body or None, headers)
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def status(path: str, key: str = KEY) -> int:
    with asked("GET", path, key) as answer:
        return answer.status


def becomes(wanted: int) -> None:
    """Wait until the proxy's own health is that."""
    deadline = time.monotonic() + 60
    while (now := status("/health")) != wanted:
        assert time.monotonic() < deadline, now
        time.sleep(0.2)


def test_only_the_api_passes_and_streams(serving: Serving) -> None:
    assert status("/health") == 200
    with asked("GET", "/v1/models") as models:
        assert json.load(models)["data"][0]["id"] == "tiny-qwen3.5"
    assert status("/v1/models", key="wrong") == 401
    for path in ("/metrics", "/version", "/tokenize", "/", "/v1/../metrics", "//metrics", "/healthy"):
        assert status(path) == 404, path
    stream = {"model": "tiny-qwen3.5", "prompt": "Say", "max_tokens": 600, "ignore_eos": True, "stream": True}
    with asked("POST", "/v1/completions", body=json.dumps(stream)) as answer:
        times = [time.monotonic() for line in answer if line.startswith(b"data:")]
    assert len(times) > 100
    assert times[0] < times[len(times) // 2] - 0.05 < times[-1] - 0.1, "pieces come as they are made"


def test_an_unhealthy_instance_gets_nothing(serving: Serving) -> None:
    pid = serving.main_pid()
    serving.on(f"kill -STOP {pid}")
    try:
        becomes(503)
    finally:
        serving.on(f"kill -CONT {pid}")
    becomes(200)
    serving.declare(lambda vllm: vllm.pop("proxy"))
    assert serving.provision().code == 0
    assert serving.on("ls /etc/systemd/system/vllm-proxy.service 2>&1 || true").endswith(
        "No such file or directory"
    )
