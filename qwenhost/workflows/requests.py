"""HTTP requests to a served model: what a request and its answer are, and the plain way to send one."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from qwenhost.records.errors import QwenhostError

LIMIT_BYTES = 8 * 1024 * 1024
"""A /metrics page of vLLM has about 60 kB."""


@dataclass(frozen=True)
class Response:
    """One whole answer. `headers` have lower-case names; `first_seconds` until the first bytes of the body."""

    status: int
    headers: Mapping[str, str]
    body: str
    first_seconds: float = 0.0
    seconds: float = 0.0


class Fetch(Protocol):
    """Sends one request and returns the whole answer; raises OSError when there is none in time."""

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: str, timeout_seconds: float
    ) -> Response:
        """`path` begins with a slash; an empty `body` is not sent; the timeout bounds the whole answer."""
        ...


class BurstFetch(Fetch, Protocol):
    """Can also send many requests at the same time."""

    def burst(
        self, path: str, headers: Mapping[str, str], bodies: Sequence[str], timeout_seconds: float
    ) -> tuple[Response | OSError, ...]:
        """POST all bodies at once and return what came back of each, in their order."""
        ...


class UrlFetch:
    """Sends requests straight to a base URL, such as http://127.0.0.1:8000. Redirects are not followed."""

    def __init__(self, base_url: str) -> None:
        self._url = _checked(base_url)

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: str, timeout_seconds: float
    ) -> Response:
        """Send the request; a malformed answer raises OSError, too."""
        began = time.monotonic()
        connection = self._connection(timeout_seconds)
        try:
            target = self._url.path.rstrip("/") + path
            connection.request(method, target, body.encode() or None, dict(headers))
            answer = connection.getresponse()
            content, first = _read(answer, began + timeout_seconds)
            found = {name.lower(): value for name, value in answer.getheaders()}
            ended = time.monotonic()
            return Response(answer.status, found, content.decode("utf-8", "replace"), first - began, ended - began)
        except http.client.HTTPException as error:
            raise OSError(f"not an HTTP answer: {type(error).__name__}") from error
        finally:
            connection.close()

    def burst(
        self, path: str, headers: Mapping[str, str], bodies: Sequence[str], timeout_seconds: float
    ) -> tuple[Response | OSError, ...]:
        """Send each request in a thread and over a connection of its own."""

        def send(body: str) -> Response:
            return self("POST", path, headers, body, timeout_seconds)

        with ThreadPoolExecutor(max(1, len(bodies))) as threads:
            return tuple(threads.map(_caught(send), bodies))

    def _connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        return kind(self._url.hostname or "", self._url.port, timeout=timeout_seconds)


def _caught(send: Callable[[str], Response]) -> Callable[[str], Response | OSError]:
    def caught(body: str) -> Response | OSError:
        try:
            return send(body)
        except OSError as error:
            return error

    return caught


def _checked(base_url: str) -> SplitResult:
    try:
        url = urlsplit(base_url)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise QwenhostError(f"not a base URL: {base_url!r}", hint="write it like http://127.0.0.1:8000")
    return url


def _read(answer: http.client.HTTPResponse, deadline: float) -> tuple[bytes, float]:
    """Return the body, and when its first bytes came."""
    parts, size, first = [], 0, 0.0
    while part := answer.read1(65536):
        first = first or time.monotonic()
        parts.append(part)
        size += len(part)
        if size > LIMIT_BYTES:
            raise OSError(f"answer longer than {LIMIT_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")
    return b"".join(parts), first or time.monotonic()
