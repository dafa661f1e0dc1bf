"""The fabric manager: its unit, its version, and what it says in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import filled, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command
from qwenhost.records.versions import PATTERN

UNIT = command(
    "fabricmanager-unit",
    "systemctl",
    "show",
    "nvidia-fabricmanager.service",
    "-p",
    "Id,LoadState,ActiveState,SubState,Result,ExecMainStatus,NRestarts,ActiveEnterTimestampMonotonic",
    looks_like=r"nvidia-fabricmanager\.service could not be found|^[^\w\n]*nvidia-fabricmanager\.service - "
    r"|^Id=nvidia-fabricmanager\.service|^\s*Active: .*\n(?:.*\n){0,20}.*nv-fabricmanager",
)
VERSION = command(
    "fabricmanager-version",
    "nv-fabricmanager",
    "--version",
    looks_like=r"^Fabric Manager version is",
)
LOG = command(
    "fabricmanager-log",
    "journalctl",
    "--no-pager",
    "--boot",
    "--unit",
    "nvidia-fabricmanager.service",
    "--lines",
    "200",
    looks_like=r"(?:nvidia-fabricmanager|nv-fabricmanager)\S*\[\d+\]: "
    r"|fabric manager NVIDIA GPU driver interface version"
    r"|^\[[A-Z][a-z]{2} +\d+ \d{4} [\d:]{8}\] \[\w+\] \[tid \d+\] ",  # /var/log/fabricmanager.log
)


SETTLED = "Successfully configured all the available"
"""What it says once it runs; refusals before that are over."""


@dataclass(frozen=True)
class FabricManager:
    """None: not seen. `active` is systemd's ActiveState, `installed` false when systemd knows no such
    unit.
    """

    installed: bool | None = None
    active: str | None = None
    result: str | None = None
    version: str | None = None
    nothing_to_do: bool | None = None
    """The log says that there is no NVSwitch to manage."""
    mismatch: tuple[str, str] | None = None
    """(fabric manager's interface version, driver version) from its own refusal."""
    evidence: str | None = None

    def merge(self, other: FabricManager) -> FabricManager:
        """Fill what this view lacks."""
        return filled(self, other)

    @property
    def running(self) -> bool | None:
        """Whether the unit is active; None when its state was not seen."""
        if self.installed is False:
            return False
        return None if self.active is None else self.active == "active"


@parses(UNIT, accepts=("ok", "failed"))
def unit_state(capture: Capture) -> FabricManager:
    """Parse `systemctl show` or `systemctl status`; raises Unparsable for anything else."""
    text = plain(capture.text)
    if re.search(r"could not be found|^LoadState=not-found", text, re.MULTILINE):
        return FabricManager(installed=False, evidence=_line(text, r"could not be found|LoadState="))
    active = re.search(r"^ActiveState=(\w+)|^\s*Active: (\w+)", text, re.MULTILINE)
    if not active:
        raise Unparsable(capture.error or "no unit state in it")
    result = re.search(r"^Result=(\S+)|\(Result: ([\w-]+)\)", text, re.MULTILINE)
    return FabricManager(
        installed=True,
        active=active[1] or active[2],
        result=(result[1] or result[2]) if result else None,
        evidence=_line(text, r"ActiveState=|Active: "),
    )


@parses(VERSION, trust=1)
def installed_version(capture: Capture) -> FabricManager:
    """Parse the installed program's version."""
    found = re.search(PATTERN, capture.text)
    if not found:
        raise Unparsable("no version in it")
    return FabricManager(version=found[0])


@parses(LOG, trust=2)
def said_in_log(capture: Capture) -> FabricManager:
    """Parse the unit's journal; the last word counts. Raises Unparsable when it is silent."""
    text = plain(capture.text)
    if not LOG.recognises(text):
        raise Unparsable("no line of the fabric manager in it")
    text = text.rpartition(SETTLED)[2]
    refusals = re.findall(rf"interface version ({PATTERN}) do(?:es)?n'?t match.*?version ({PATTERN})", text)
    idle = re.search(r"NV_WARN_NOTHING_TO_DO|Nothing to do", text)
    failed = re.search(r"Failed with result|status=1/FAILURE|failed to start", text, re.IGNORECASE)
    return FabricManager(
        active="failed" if (idle or refusals) and failed else None,
        nothing_to_do=True if idle else None,
        mismatch=refusals[-1] if refusals else None,
        evidence=_line(text, r"NOTHING_TO_DO|interface version"),
    )


def _line(text: str, pattern: str) -> str | None:
    found = re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE)
    return found[0].strip()[:300] if found else None
