"""The proxy before the service: what passes, how answers stream, who is let in with the key that was changed."""

from __future__ import annotations

import http.client
import json
import ssl
import time

from tests.lab.serving.conftest import HOST, KEY, LAB, PORT, Serving


def ask(method: str, path: str, key: str = KEY, body: str = "") -> http.client.HTTPResponse:
    """Ask the proxy from this machine; its certificate is the test's own."""
    connection = http.client.HTTPSConnection(
        LAB.named(HOST).address, PORT, timeout=120, context=ssl._create_unverified_context()
    )
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request(method, path, body or None, headers)
    return connection.getresponse()


def test_only_the_api_passes_and_streams(serving: Serving) -> None:
    assert ask("GET", "/health").status == 200
    assert json.loads(ask("GET", "/v1/models").read())["data"][0]["id"] == "tiny-qwen3.5"
    assert ask("GET", "/v1/models", key="wrong").status == 401
    for path in ("/metrics", "/version", "/tokenize", "/", "/v1/../metrics", "//metrics", "/healthy"):
        assert ask("GET", path).status == 404, path
    stream = {"model": "tiny-qwen3.5", "prompt": "Say", "max_tokens": 600, "ignore_eos": True, "stream": True}
    answer, times = ask("POST", "/v1/completions", body=json.dumps(stream)), []
    for line in answer:
        times += [time.monotonic()] * line.startswith(b"data:")
    assert len(times) > 100
    assert times[0] < times[len(times) // 2] - 0.05 < times[-1] - 0.1, "pieces come as they are made"


def test_an_unhealthy_instance_gets_nothing(serving: Serving) -> None:
    pid = serving.main_pid()
    serving.on(f"kill -STOP {pid}")
    try:
        deadline = time.monotonic() + 60
        while (status := ask("GET", "/health").status) != 503:
            assert time.monotonic() < deadline, status
    finally:
        serving.on(f"kill -CONT {pid}")
    deadline = time.monotonic() + 60
    while ask("GET", "/health").status != 200:
        assert time.monotonic() < deadline
    serving.declare(lambda vllm: vllm.pop("proxy"))
    assert serving.provision().code == 0
    assert serving.on("ls /etc/systemd/system/vllm-proxy.service 2>&1 || true").endswith(
        "No such file or directory"
    )
