"""Which parts of a machine have an alarm, for pictures of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.reports.grouping import described

BUS_ID = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
GPU = re.compile(r"\bgpu(\d+)\b", re.IGNORECASE)

ALARMS = (Verdict.WARN, Verdict.FAIL)
"""Worst last."""


@dataclass
class Marks:
    """Alarms by the part that they are about: a bus id, a GPU's index, or a pair of indices."""

    found: dict[object, list[Finding]] = field(default_factory=dict)

    def verdict(self, *parts: object, of: str = "") -> Verdict | None:
        """Return the worst alarm of any of these parts, among checks whose id starts with `of`."""
        told = [finding.verdict for finding in self.about(*parts, of=of)]
        return max(told, key=ALARMS.index, default=None)

    def title(self, *parts: object, of: str = "") -> str:
        """Return the alarms in words, a line each."""
        return "\n".join(f"{finding.check}: {described(finding)}" for finding in self.about(*parts, of=of))

    def about(self, *parts: object, of: str = "") -> list[Finding]:
        """Return the alarms of any of these parts, once each."""
        told = [finding for part in parts for finding in self.found.get(part, [])]
        return [finding for finding in dict.fromkeys(told) if finding.check.startswith(of)]


def marks(report: HostReport) -> Marks:
    """Sort the alarms of a host by part."""
    result = Marks()
    for finding in report.findings:
        if finding.verdict in ALARMS:
            for part in _parts(finding):
                result.found.setdefault(part, []).append(finding)
    return result


def _parts(finding: Finding) -> Iterable[object]:
    """Return the parts that a finding is about; of "port X above Y" the port, not what suffers below it."""
    where, _, _ = finding.subject.partition(" above ")
    yield from dict.fromkeys(BUS_ID.findall(where))
    numbers = [int(number) for number in GPU.findall(where)]
    if len(numbers) == 2:
        yield tuple(sorted(numbers))
    elif numbers:
        yield numbers[0]
