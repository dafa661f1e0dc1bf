"""One HTTP request to a service on this host's loopback; the API key is read here and goes nowhere else."""

from __future__ import annotations

import http.client
import urllib.parse
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LIMIT_BYTES = 4 * 1024 * 1024


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Send the request and return {"status", "headers", "body"}.

    `request`: {"base_url", "method", "path", "headers", "body", "timeout_seconds", "bearer_file"}; with
    `bearer_file` the key in that file is sent. Raises OSError when nothing answers.
    """
    url = urllib.parse.urlsplit(request["base_url"])
    if url.hostname not in LOOPBACK:
        raise ValueError("not a loopback address: {}".format(request["base_url"]))
    connection = http.client.HTTPConnection(
        url.hostname, url.port or 80, timeout=request.get("timeout_seconds", 30)
    )
    try:
        connection.request(
            request.get("method", "GET"), request["path"], request.get("body") or None, _headers(request)
        )
        answer = connection.getresponse()
        body = answer.read(LIMIT_BYTES).decode("utf-8", "replace")
        return {"status": answer.status, "headers": dict(answer.getheaders()), "body": body}
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
