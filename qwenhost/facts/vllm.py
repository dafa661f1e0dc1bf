"""The served model: what is installed, configured, running and answering."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from qwenhost.facts.keyed import listing, matching
from qwenhost.facts.registry import ANY, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source, command, http, tree

ROOT = "/opt/qwenhost/vllm"
CONFIG = "/etc/qwenhost/vllm"

UNPROVEN = "/var/lib/qwenhost/vllm/unproven"

ENVIRONMENTS = tree("vllm-environments", f"{ROOT}/*/.complete", f"{ROOT}/current", UNPROVEN, "/proc/version")
"""/proc/version is there on every host: with it alone, nothing is installed."""

CONFIGS = tree("vllm-config", f"{CONFIG}/*.yaml", "/proc/version")

PROXY_UNIT = "vllm-proxy.service"

UNITS = command(
    "vllm-units",
    "systemctl",
    "show",
    "basic.target",
    "vllm@*",
    PROXY_UNIT,
    "--all",
    "--property=Id,LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,LimitMEMLOCK,LimitNOFILE"
    ",ActiveEnterTimestampMonotonic",
)
"""basic.target is on every host: where it alone is shown, no instance is loaded."""

HEALTH = Source("vllm-health", "http")
"""Asked once per declared port, as vllm-health:PORT."""


def health_sources(ports: Iterable[int]) -> tuple[Source, ...]:
    """Return what to ask the instances on these ports."""
    return tuple(http(f"{HEALTH.name}:{port}", f"http://127.0.0.1:{port}/health") for port in ports)


@dataclass(frozen=True)
class VllmEnvironments:
    """`requirements`: environment -> what is installed there, such as "vllm==0.32.0".

    `current` is the name of the environment in use, empty for none. `unproven` tells of a switch that was
    interrupted before the new version had proven itself.
    """

    requirements: Mapping[str, str]
    current: str
    unproven: str = ""


@dataclass(frozen=True)
class VllmConfigs:
    """Instance -> options of its config file."""

    options: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class VllmUnit:
    """One loaded vllm@NAME.service, as systemd shows it."""

    state: str
    result: str
    restarts: int


@dataclass(frozen=True)
class VllmUnits:
    """Instance -> unit; one that systemd has not loaded is not there."""

    units: Mapping[str, VllmUnit]


@dataclass(frozen=True)
class VllmHealth:
    """Port -> HTTP status of /health, or 0 and the reason when nothing answered."""

    answers: Mapping[int, tuple[int, str]]

    def merge(self, other: VllmHealth) -> VllmHealth:
        """Add the other ports."""
        return VllmHealth({**other.answers, **self.answers})


@parses(ENVIRONMENTS)
def environments(capture: Capture) -> VllmEnvironments:
    """Parse the completion marks and the link to the environment in use."""
    paths = _all_read(capture)
    marks = {found[1]: content for found, content in matching(capture, rf"{ROOT}/([^/]+)/\.complete")}
    link = str(paths.get(f"{ROOT}/current@", ""))
    return VllmEnvironments(
        {name: text for name, text in marks.items() if name != "current"},
        link.rpartition("/")[2],
        str(paths.get(UNPROVEN, "")).strip(),
    )


@parses(CONFIGS)
def configs(capture: Capture) -> VllmConfigs:
    """Parse the config files; one that is no YAML has no options, and so is not as declared."""
    _all_read(capture)
    return VllmConfigs({found[1]: _options(text) for found, text in matching(capture, rf"{CONFIG}/([^/]+)\.yaml")})


def _all_read(capture: Capture) -> Mapping[str, str]:
    """Return the listing; raises Unparsable where a file of it could not be read."""
    paths = listing(capture, "/proc/version")
    unread = [path for path in paths if path.endswith("!")]
    if unread:
        raise Unparsable(f"{unread[0].removesuffix('!')}: {paths[unread[0]]}")
    return paths


def _options(text: str) -> Mapping[str, Any]:
    try:
        options = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return options if isinstance(options, dict) else {}


@parses(UNITS)
def units(capture: Capture) -> VllmUnits:
    """Parse blocks of `systemctl show`, parted by empty lines."""
    return VllmUnits({name: _unit(fields) for name, fields in shown_units(capture)})


def _unit(fields: Mapping[str, str]) -> VllmUnit:
    return VllmUnit(fields["ActiveState"], fields["Result"], int(fields["NRestarts"] or 0))


def shown_units(capture: Capture) -> list[tuple[str, Mapping[str, str]]]:
    """Return instance and properties of each loaded vllm@NAME.service."""
    named = [(re.fullmatch(r"vllm@(.+)\.service", fields["Id"]), fields) for fields in unit_blocks(capture)]
    return [(name[1], fields) for name, fields in named if name and fields["LoadState"] != "not-found"]


def unit_blocks(capture: Capture) -> list[dict[str, str]]:
    """Return the properties of each unit that systemd showed. Raises Unparsable where it showed none."""
    blocks = re.split(r"\n\s*\n", capture.text.strip())
    units = [dict(line.split("=", 1) for line in block.splitlines()) for block in blocks]
    if not any(fields["Id"] == "basic.target" for fields in units):
        raise Unparsable("systemd showed no unit")
    return units


@parses(HEALTH, accepts=ANY)
def health(capture: Capture) -> VllmHealth:
    """Parse one answer, or what became of the question."""
    port = int(capture.source.rpartition(":")[2])
    if capture.status == "ok":
        return VllmHealth({port: (int(json.loads(capture.text)["status"]), "")})
    if capture.status == "timeout" or "refused" in capture.error:
        return VllmHealth({port: (0, capture.error or capture.status)})
    raise Unparsable(capture.error or capture.status)
