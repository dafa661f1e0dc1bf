"""The declared instances of a host, asked from the host itself over its loopback address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from qwenhost.expectations.declared import Declared, read_declared
from qwenhost.records.desired import Serving
from qwenhost.records.errors import HostUnreachable, QwenhostError
from qwenhost.records.finding import Finding, HostReport
from qwenhost.records.host import Host
from qwenhost.workflows.requests import Fetch, Response
from qwenhost.workflows.smoke import EXPECT, QUESTION, answer_text, smoke

KEY_FILE = "/etc/qwenhost/vllm/api_key"
"""Written by the role vllm_service, readable by root alone."""

KEY_ON_HOST = "key-on-the-host"
"""Stands for the key in requests made here; the host puts the real one in its place."""

CONNECT_SECONDS = 15.0
"""On top of a request's own limit: reaching the host and starting Python there."""

SendHttp = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Does the host-side act `http`: a request in, {"status", "headers", "body"} out; raises OSError."""


class HostFetch:
    """Sends requests from the host; the API key is read there and never leaves it."""

    def __init__(self, base_url: str, send: SendHttp) -> None:
        self._base_url, self._send = base_url, send

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: str, timeout_seconds: float
    ) -> Response:
        """Send one request."""
        plain = {name: value for name, value in headers.items() if KEY_ON_HOST not in value}
        answer = self._send(
            {
                "base_url": self._base_url,
                "method": method,
                "path": path,
                "headers": plain,
                "body": body,
                "timeout_seconds": timeout_seconds,
                "bearer_file": KEY_FILE if len(plain) < len(headers) else "",
            }
        )
        found = {str(name).lower(): str(value) for name, value in answer["headers"].items()}
        return Response(int(answer["status"]), found, str(answer["body"]))


def fetches(declared: Declared, send: SendHttp) -> Iterator[tuple[str, Fetch]]:
    """Yield name and fetch of every declared instance."""
    for instance in declared.serving.instances if declared.serving else ():
        yield instance.name, HostFetch(f"http://127.0.0.1:{instance.port}", send)


def smoke_instances(
    declared: Declared, send: SendHttp, question: str = QUESTION, expect: str = EXPECT
) -> tuple[Finding, ...]:
    """Smoke-test every declared instance."""
    model = declared.serving.model_name if declared.serving else ""
    return tuple(
        finding
        for name, fetch in fetches(declared, send)
        for finding in smoke(f"vllm@{name}", KEY_ON_HOST, model, question=question, expect=expect, fetch=fetch)
    )


def over_ssh(host: Host) -> SendHttp:
    """Return a way to send requests from a host that is reached by SSH."""
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    return lambda request: ssh.act(host, "http", request, request["timeout_seconds"] + CONNECT_SECONDS)


def ask(host: Host, serving: Serving, instance: str, question: str) -> str:
    """Return a served model's answer. Raises OSError when none comes."""
    ports = {one.name: one.port for one in serving.instances}
    if instance and instance not in ports:
        raise QwenhostError(f"{host.name}: no instance {instance}", hint=f"declared: {', '.join(ports)}")
    port = ports[instance] if instance else serving.instances[0].port
    fetch = HostFetch(f"http://127.0.0.1:{port}", over_ssh(host))
    return answer_text(fetch, KEY_ON_HOST, serving.model_name, question)


def smoke_hosts(hosts: Sequence[Host], question: str = QUESTION, expect: str = EXPECT) -> tuple[HostReport, ...]:
    """Smoke-test the declared instances of hosts, one host after the other."""
    return tuple(_smoke_host(host, question, expect) for host in hosts)


def _smoke_host(host: Host, question: str, expect: str) -> HostReport:
    declared = read_declared(host.variables, host=host.name, where=host.origin)
    if declared.serving is None:
        return HostReport(host.name, "", (), notes={"smoke": "nothing is declared to be served"})
    try:
        return HostReport(host.name, "", smoke_instances(declared, over_ssh(host), question, expect))
    except HostUnreachable as error:
        return HostReport(host.name, "", (), error=str(error), hint=error.hint)
