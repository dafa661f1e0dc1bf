"""GET from a service on this host's loopback address; any other address is refused."""

from __future__ import annotations

import json
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def read_http(source: dict[str, Any]) -> dict[str, Any]:
    """Return the answer as the JSON text {"status", "body"}."""
    import http.client  # a third of the probe's start, and only hosts that serve are asked
    import urllib.parse

    url = urllib.parse.urlsplit(source["url"])
    if url.scheme != "http" or url.hostname not in LOOPBACK:
        return _failed("refused: not a loopback address: {}".format(source["url"]))
    limit = int(source["limit_bytes"])
    connection = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=source["timeout_seconds"])
    try:
        connection.request("GET", urllib.parse.urlunsplit(("", "", url.path or "/", url.query, "")))
        answer = connection.getresponse()
        body = answer.read(limit + 1)
    except ConnectionRefusedError:
        return _failed("connection refused")
    finally:
        connection.close()
    text = json.dumps({"status": answer.status, "body": body[:limit].decode("utf-8", "replace")})
    return {"text": text, "status": "ok", "error": "", "truncated": len(body) > limit}


def _failed(error: str) -> dict[str, Any]:
    return {"text": "", "status": "failed", "error": error}
