"""Findings that say the same become one row: a fault of eight GPUs, or all that one missing source hides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qwenhost.records.finding import Finding, HostReport, Verdict

HOST = "host"
FEW = 3
"""Subjects or ids that are named one by one; more are counted."""

WORST_FIRST = (Verdict.FAIL, Verdict.WARN, Verdict.UNKNOWN, Verdict.NOTE)


@dataclass(frozen=True)
class Group:
    """Findings of one check that differ in their subject only."""

    findings: tuple[Finding, ...]

    @property
    def check(self) -> str:
        """Id of the check."""
        return self.findings[0].check

    @property
    def verdict(self) -> Verdict:
        """The verdict that they share."""
        return self.findings[0].verdict

    @property
    def origin(self) -> str:
        """Where the expectation came from."""
        return self.findings[0].origin

    @property
    def evidence(self) -> str:
        """What was read, where it says more than the observed value."""
        finding = self.findings[0]
        return "" if finding.evidence.strip() in finding.observed else " ".join(finding.evidence.split())[:200]

    @property
    def why(self) -> str:
        """Why it matters, in one sentence: the first one after the check's own statement."""
        paragraphs = self.findings[0].why.split("\n\n")
        text = " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""
        sentence, stop, _ = text.partition(". ")
        return f"{sentence}." if stop else sentence

    @property
    def where(self) -> str:
        """The subjects in words, empty for the host as a whole."""
        subjects = list(dict.fromkeys(finding.subject for finding in self.findings))
        return "" if subjects == [HOST] else f" on {enumerated(subjects)}"

    @property
    def what(self) -> str:
        """Observed and expected in words."""
        return described(self.findings[0])


def described(finding: Finding) -> str:
    """Return observed and expected in words."""
    observed = finding.observed or "no value"
    return f"{observed}, expected {finding.expected}" if finding.expected else observed


def enumerated(names: list[str]) -> str:
    """Name a few, or the first and the last with their number."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]} ({len(names)})"


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Join findings of the same check, verdict and values; worst first, else in their order."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.check, finding.verdict, finding.observed, finding.expected, finding.origin)
        groups.setdefault(key, []).append(finding)
    found = [Group(tuple(group)) for group in groups.values()]
    return sorted(found, key=lambda group: WORST_FIRST.index(group.verdict))


def alarms(report: HostReport, *verdicts: Verdict) -> list[Group]:
    """Return the findings with these verdicts that are nobody's consequence."""
    return grouped(finding for finding in report.findings if finding.verdict in verdicts and not finding.cause)


def consequences(report: HostReport, cause: str) -> list[Group]:
    """Return what a failed check explains, at any distance. What it merely hid is counted, not listed."""
    told = [finding for finding in report.findings if finding.cause and _root(report, finding) == cause]
    alarmed = grouped(finding for finding in told if finding.verdict is not Verdict.UNKNOWN)
    hidden = [finding for finding in told if finding.verdict is Verdict.UNKNOWN]
    return [*alarmed, *([_hidden(hidden)] if hidden else [])]


def _root(report: HostReport, finding: Finding) -> str:
    """Return the check at the start of a chain of causes."""
    causes = {other.check: other.cause for other in report.findings if other.cause}
    at, seen = finding.cause, {finding.check}
    while at in causes and at not in seen:
        seen.add(at)
        at = causes[at]
    return at


def _hidden(findings: list[Finding]) -> Group:
    """Return one row for all checks that could not see because of the same cause."""
    ids = list(dict.fromkeys(finding.check for finding in findings))
    return Group((Finding(enumerated(ids), HOST, Verdict.UNKNOWN, observed="not seen because of this"),))


def unseen(report: HostReport) -> list[str]:
    """Return a line per missing source, or per reason where no source is to blame, with the checks hit."""
    checks: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.verdict is Verdict.UNKNOWN and not finding.cause:
            checks.setdefault(_reason(finding), []).append(finding.check)
    return [f"{reason} (needed by {enumerated(list(dict.fromkeys(ids)))})" for reason, ids in checks.items()]


def _reason(finding: Finding) -> str:
    """Return why nothing was seen: what became of the best source, else the finding's own words."""
    told = finding.observed or "no value"
    if finding.source:
        parts = [part for part in told.split("; ") if part.startswith(f"{finding.source}: ")]
        return parts[0] if parts else f"{finding.source}: {told}"
    return told if finding.subject == HOST else f"{finding.subject}: {told}"
