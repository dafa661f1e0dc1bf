"""The declared instances of a host, asked from the host itself over its loopback address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from qwenhost.expectations.declared import Declared, read_declared
from qwenhost.expectations.smoke_tables import Expected, known_answers
from qwenhost.records.desired import Serving, VllmInstance
from qwenhost.records.errors import HostUnreachable, QwenhostError
from qwenhost.records.finding import Finding, HostReport
from qwenhost.records.host import Host
from qwenhost.workflows import gpu_held
from qwenhost.workflows.gpu_held import Look, held_mib
from qwenhost.workflows.promised import promise_of
from qwenhost.workflows.requests import Response
from qwenhost.workflows.smoke.run import smoke
from qwenhost.workflows.smoke.service import Service, Unanswered, text_of

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
        return _response(self._send({**self._request(method, path, headers, timeout_seconds), "body": body}))

    def burst(
        self, path: str, headers: Mapping[str, str], bodies: Sequence[str], timeout_seconds: float
    ) -> tuple[Response | OSError, ...]:
        """Send all bodies in one act; the host sends them at the same time."""
        request = self._request("POST", path, headers, timeout_seconds)
        answers = self._send({**request, "bodies": list(bodies)})["answers"]
        return tuple(OSError(answer["error"]) if "error" in answer else _response(answer) for answer in answers)

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], timeout_seconds: float
    ) -> dict[str, Any]:
        plain = {name: value for name, value in headers.items() if KEY_ON_HOST not in value}
        return {
            "base_url": self._base_url,
            "method": method,
            "path": path,
            "headers": plain,
            "timeout_seconds": timeout_seconds,
            "bearer_file": KEY_FILE if len(plain) < len(headers) else "",
        }


def _response(answer: Mapping[str, Any]) -> Response:
    found = {str(name).lower(): str(value) for name, value in answer["headers"].items()}
    times = (float(answer.get(name, 0)) for name in ("first_seconds", "seconds"))
    return Response(int(answer["status"]), found, str(answer["body"]), *times)


def services(
    declared: Declared, send: SendHttp, look: Look, answers: Sequence[Expected] | None = None
) -> Iterator[tuple[str, Service]]:
    """Yield name and service of every declared instance."""
    serving = declared.serving
    for instance in serving.instances if serving else ():
        if serving:
            service = _service(serving, instance, send)
            service.answers, service.promise = answers or known_answers(), promise_of(declared, serving, instance)
            service.gpu_mib = partial(held_mib, serving, instance.name, look)
            yield instance.name, service


def _service(serving: Serving, instance: VllmInstance, send: SendHttp) -> Service:
    fetch = HostFetch(f"http://127.0.0.1:{instance.port}", send)
    return Service(fetch, KEY_ON_HOST, serving.model_name)


def smoke_instances(
    declared: Declared,
    send: SendHttp,
    look: Look,
    answers: Sequence[Expected] | None = None,
    full: bool = False,
) -> tuple[Finding, ...]:
    """Smoke-test every declared instance."""
    return tuple(
        finding
        for name, service in services(declared, send, look, answers)
        for finding in smoke(service, f"vllm@{name}", full=full)
    )


def over_ssh(host: Host) -> SendHttp:
    """Return a way to send requests from a host that is reached by SSH."""
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    return lambda request: ssh.act(host, "http", request, request["timeout_seconds"] + CONNECT_SECONDS)


def ask(host: Host, serving: Serving, instance: str, question: str) -> str:
    """Return a served model's answer. Raises OSError when none comes."""
    by_name = {one.name: one for one in serving.instances}
    if instance and instance not in by_name:
        raise QwenhostError(f"{host.name}: no instance {instance}", hint=f"declared: {', '.join(by_name)}")
    chosen = by_name[instance] if instance else serving.instances[0]
    try:
        return text_of(_service(serving, chosen, over_ssh(host)).answer(question))
    except Unanswered as refusal:
        raise OSError(f"{refusal.seen.observed}: {refusal.seen.evidence}") from refusal


def first_service(host: Host | None) -> tuple[str, Service]:
    """Return name and service of the first instance that a host declares. Raises QwenhostError for none."""
    if host is None:
        raise QwenhostError("no host is named whose own service could be asked", hint="give a URL")
    declared = read_declared(host.variables, host=host.name, where=host.origin)
    for name, service in services(declared, over_ssh(host), gpu_held.over_ssh(host)):
        return f"{host.name} vllm@{name}", service
    raise QwenhostError(f"{host.name}: nothing is served there", hint="declare qwenhost_vllm")


def smoke_hosts(
    hosts: Sequence[Host], answers: Sequence[Expected] | None = None, full: bool = False
) -> tuple[HostReport, ...]:
    """Smoke-test the declared instances of hosts, one host after the other."""
    return tuple(_smoke_host(host, answers, full) for host in hosts)


def _smoke_host(host: Host, answers: Sequence[Expected] | None, full: bool) -> HostReport:
    declared = read_declared(host.variables, host=host.name, where=host.origin)
    if declared.serving is None:
        return HostReport(host.name, "", (), notes={"smoke": "nothing is declared to be served"})
    try:
        look = gpu_held.over_ssh(host)
        return HostReport(host.name, "", smoke_instances(declared, over_ssh(host), look, answers, full))
    except HostUnreachable as error:
        return HostReport(host.name, "", (), error=str(error), hint=error.hint)
