"""The question that a transport carries to the probe, and the answer that it brings back."""

from __future__ import annotations

import json
from collections.abc import Iterable

from qwenhost.records.bundle import Bundle, from_json
from qwenhost.records.errors import BadData, HostUnreachable
from qwenhost.records.source import Source

SCHEMA = 1

PROBE_SECONDS = 12.0
"""The probe ends by itself within this time, whatever hangs on the host."""


def make_request(host: str, sources: Iterable[Source]) -> bytes:
    """Return the request in the probe's JSON form."""
    asked = [source.request() for source in sources]
    return json.dumps({"schema": SCHEMA, "host": host, "sources": asked}).encode()


def read_answer(host: str, text: bytes) -> Bundle:
    """Return the bundle that the probe wrote. Raises HostUnreachable when it is none."""
    try:
        return from_json(text.decode("utf-8", "replace"), host)
    except BadData as error:
        raise HostUnreachable(
            f"{host}: the probe's answer cannot be read: {error}",
            hint="something on the host may print to its standard output at login",
        ) from error
