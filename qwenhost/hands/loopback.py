"""HTTP requests to a service on this host's loopback; the API key is read here and goes nowhere else."""

from __future__ import annotations

import http.client
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LIMIT_BYTES = 4 * 1024 * 1024


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Send the request and return {"status", "headers", "body", "first_seconds", "seconds"}.

    `request`: {"base_url", "method", "path", "headers", "body", "timeout_seconds", "bearer_file"}; with
    `bearer_file` the key in that file is sent. With `bodies` in place of `body`, all of them are sent at the same
    time, and {"answers": [...]} has what came back of each, {"error"} where nothing did. Raises OSError when
    nothing answers a single request.
    """
    url = urllib.parse.urlsplit(request["base_url"])
    if url.hostname not in LOOPBACK:
        raise ValueError("not a loopback address: {}".format(request["base_url"]))
    headers, bodies = _headers(request), request.get("bodies")
    if bodies is None:
        return _send(request, url, headers, request.get("body") or "")
    with ThreadPoolExecutor(max(1, len(bodies))) as threads:
        return {"answers": list(threads.map(lambda body: _caught(request, url, headers, body), bodies))}


def _caught(
    request: dict[str, Any], url: urllib.parse.SplitResult, headers: dict[str, str], body: str
) -> dict[str, Any]:
    try:
        return _send(request, url, headers, body)
    except OSError as error:
        return {"error": str(error) or type(error).__name__}


def _send(
    request: dict[str, Any], url: urllib.parse.SplitResult, headers: dict[str, str], body: str
) -> dict[str, Any]:
    began = time.monotonic()
    connection = http.client.HTTPConnection(
        url.hostname or "", url.port or 80, timeout=request.get("timeout_seconds", 30)
    )
    try:
        connection.request(request.get("method", "GET"), request["path"], body or None, headers)
        answer = connection.getresponse()
        start = answer.read(1)
        first = time.monotonic()
        text = (start + answer.read(LIMIT_BYTES)).decode("utf-8", "replace")
        return {
            "status": answer.status,
            "headers": dict(answer.getheaders()),
            "body": text,
            "first_seconds": first - began,
            "seconds": time.monotonic() - began,
        }
    except http.client.HTTPException as error:
        raise OSError("no HTTP answer: {!r}".format(error)) from error
    finally:
        connection.close()


def _headers(request: dict[str, Any]) -> dict[str, str]:
    headers = dict(request.get("headers") or {})
    if request.get("bearer_file"):
        with open(request["bearer_file"], encoding="utf-8") as file:
            headers["Authorization"] = "Bearer " + file.read().strip()
    return headers
