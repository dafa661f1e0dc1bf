"""What the package managers' histories say of the driver's last upgrade."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file
from qwenhost.records.versions import PATTERN

HISTORY = file(
    "apt-history", "/var/log/apt/history.log", looks_like=r"^Commandline: .*\n(?:.*\n)*?(?:Upgrade|Install): "
)
RPM_LOG = file("dnf-history", "/var/log/dnf.rpm.log", looks_like=r"^\S+ SUBDEBUG (?:Upgrade|Upgraded|Installed): ")
_LIBRARY = rf"(?:lib)?nvidia-[^\s:]+:\w+ \((?:\d+:)?({PATTERN})[^\s,]*, (?:\d+:)?({PATTERN})"


@dataclass(frozen=True)
class DriverUpgrade:
    """The last upgrade of the driver's packages: when (as printed), by which command, from and to which version.

    None: the history knows of none.
    """

    when: str | None = None
    by: str | None = None
    before: str | None = None
    after: str | None = None

    @property
    def told(self) -> str:
        """One line for people, empty where there was none."""
        return f"{self.when}: {self.by}: {self.before} -> {self.after}" if self.after else ""


@parses(HISTORY)
def last_upgrade(capture: Capture) -> DriverUpgrade:
    """Parse apt's history; the last entry that moved the driver counts."""
    entries = re.split(r"^(?=Start-Date: )", capture.text, flags=re.MULTILINE)
    if not any("Commandline: " in entry or "Start-Date: " in entry for entry in entries):
        raise Unparsable("no entry in it")
    moved = [(entry, found) for entry in entries if (found := re.search(_LIBRARY, entry)) and found[1] != found[2]]
    if not moved:
        return DriverUpgrade()
    entry, found = moved[-1]
    when = re.search(r"^Start-Date: (.*)$", entry, re.MULTILINE)
    by = re.search(r"^Commandline: (.*)$", entry, re.MULTILINE)
    return DriverUpgrade(when[1].strip() if when else "", by[1].strip() if by else "", found[1], found[2])


@parses(RPM_LOG, trust=1)
def last_upgrade_by_dnf(capture: Capture) -> DriverUpgrade:
    """Parse dnf's log of rpm: what came (Upgrade) and then what went (Upgraded), a line each."""
    if not RPM_LOG.recognises(capture.text):
        raise Unparsable("no line of rpm in it")
    came, went = (_moved(capture.text, word) for word in ("Upgrade", "Upgraded"))
    if not came or not went:
        return DriverUpgrade()
    return DriverUpgrade(came[-1][0], "dnf", went[-1][1], came[-1][1])


def _moved(text: str, word: str) -> list[tuple[str, str]]:
    """Return time and version of the driver's packages in lines with this word."""
    package = rf"(?:lib)?nvidia-(?:driver|lib)\S*?-(?:\d+:)?({PATTERN})-"
    return re.findall(rf"^(\S+) SUBDEBUG {word}: {package}", text, re.MULTILINE)
