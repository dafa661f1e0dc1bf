"""HTTP requests to a served model: what a request and its answer are, and the plain way to send one."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from qwenhost.records.errors import QwenhostError

LIMIT_BYTES = 8 * 1024 * 1024
"""A /metrics page of vLLM has about 60 kB."""


@dataclass(frozen=True)
class Response:
    """One whole answer. `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: str


class Fetch(Protocol):
    """Sends one request and returns the whole answer; raises OSError when there is none in time."""

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: str, timeout_seconds: float
    ) -> Response:
        """`path` begins with a slash; an empty `body` is not sent; the timeout bounds the whole answer."""
        ...


class UrlFetch:
    """Sends requests straight to a base URL, such as http://127.0.0.1:8000. Redirects are not followed."""

    def __init__(self, base_url: str) -> None:
        self._url = _checked(base_url)

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: str, timeout_seconds: float
    ) -> Response:
        """Send the request; a malformed answer raises OSError, too."""
        deadline = time.monotonic() + timeout_seconds
        connection = self._connection(timeout_seconds)
        try:
            target = self._url.path.rstrip("/") + path
            connection.request(method, target, body.encode() or None, dict(headers))
            answer = connection.getresponse()
            text = _read(answer, deadline).decode("utf-8", "replace")
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)
        except http.client.HTTPException as error:
            raise OSError(f"not an HTTP answer: {type(error).__name__}") from error
        finally:
            connection.close()

    def _connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        return kind(self._url.hostname or "", self._url.port, timeout=timeout_seconds)


def _checked(base_url: str) -> SplitResult:
    try:
        url = urlsplit(base_url)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise QwenhostError(f"not a base URL: {base_url!r}", hint="write it like http://127.0.0.1:8000")
    return url


def _read(answer: http.client.HTTPResponse, deadline: float) -> bytes:
    parts, size = [], 0
    while part := answer.read1(65536):
        parts.append(part)
        size += len(part)
        if size > LIMIT_BYTES:
            raise OSError(f"answer longer than {LIMIT_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")
    return b"".join(parts)
