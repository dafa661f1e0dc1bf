"""The question that a transport carries to the probe, and the answer that it brings back."""

from __future__ import annotations

import json
from collections.abc import Iterable

from qwenhost.records.bundle import Bundle, from_json
from qwenhost.records.errors import BadData, HostUnreachable
from qwenhost.records.source import Source
from qwenhost.transports.taming import tamed_bundle

SCHEMA = 1

PROBE_SECONDS = 12.0
"""The probe ends by itself within this time, whatever hangs on the host."""


SEARCH_SECONDS = 60.0

PYTHONS_WITH_TORCH = ("/opt/qwenhost/vllm/current/bin/python", "python3", "/opt/*/bin/python3")
"""Where trials look for a Python that has PyTorch: that of the served vLLM, then what the host has."""


def make_request(host: str, sources: Iterable[Source]) -> bytes:
    """Return the request in the JSON form of the probe and the trials; only the latter read `pythons`."""
    asked = [source.request() for source in sources]
    return json.dumps({"schema": SCHEMA, "host": host, "sources": asked, "pythons": PYTHONS_WITH_TORCH}).encode()


def longest_trials(trials: Iterable[Source]) -> float:
    """Return the time within which trials end, one after the other, with the search for a Python."""
    return sum(trial.timeout_seconds for trial in trials) + SEARCH_SECONDS


def read_answer(host: str, text: bytes) -> Bundle:
    """Return the bundle that the probe wrote. Raises HostUnreachable when it is none."""
    try:
        return tamed_bundle(from_json(text.decode("utf-8", "replace"), host))
    except BadData as error:
        raise HostUnreachable(
            f"{host}: the probe's answer cannot be read: {error}",
            hint="something on the host may print to its standard output at login",
        ) from error
