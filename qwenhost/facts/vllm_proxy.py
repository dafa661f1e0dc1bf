"""The proxy before the vLLM instances of a host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.facts.vllm import PROXY_UNIT, UNITS, unit_blocks
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

SETTINGS = "/etc/qwenhost/vllm/proxy.json"
FILES = tree("vllm-proxy", SETTINGS, "/proc/version")
"""/proc/version is there on every host: with it alone, no proxy is configured."""


@dataclass(frozen=True)
class ProxySettings:
    """What the role made the proxy of; None for no proxy."""

    settings: Mapping[str, Any] | None


@dataclass(frozen=True)
class ProxyUnit:
    """State of its unit, as systemd names it; inactive where there is none."""

    state: str


@parses(FILES)
def settings(capture: Capture) -> ProxySettings:
    """Parse the file that the role writes last."""
    files = listing(capture, "/proc/version")
    if f"{SETTINGS}!" in files:
        raise Unparsable(f"{SETTINGS}: {files[f'{SETTINGS}!']}")
    try:
        return ProxySettings(json.loads(files[SETTINGS]) if SETTINGS in files else None)
    except ValueError as error:
        raise Unparsable(f"{SETTINGS}: no JSON") from error


@parses(UNITS)
def unit(capture: Capture) -> ProxyUnit:
    """Parse the unit's block of `systemctl show`."""
    states = [fields["ActiveState"] for fields in unit_blocks(capture) if fields["Id"] == PROXY_UNIT]
    return ProxyUnit(states[0] if states else "inactive")
