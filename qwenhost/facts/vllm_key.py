"""Which API key a host holds, without the key."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.facts.vllm import CONFIG
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import digest

HELD = digest("vllm-key", f"{CONFIG}/api_key")


@dataclass(frozen=True)
class HostKey:
    """First eight digits of the SHA256 of the key's file."""

    digest: str


@parses(HELD)
def held(capture: Capture) -> HostKey:
    """Parse the digits."""
    if not re.fullmatch(r"[0-9a-f]{8}", capture.text):
        raise Unparsable("no digest")
    return HostKey(capture.text)
