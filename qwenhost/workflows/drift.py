"""What hosts no longer are of what is declared: the findings that a role would put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qwenhost.records.finding import HostReport, Verdict
from qwenhost.records.host import Host
from qwenhost.workflows.doctor import examine_hosts

HOLDS = (Verdict.PASS, Verdict.SKIP, Verdict.NOTE)


def drift(hosts: Sequence[Host]) -> tuple[HostReport, ...]:
    """Examine all hosts and keep of each report what differs and has a role as its remedy."""
    return tuple(_drifted(report) for report in examine_hosts(hosts))


def _drifted(report: HostReport) -> HostReport:
    findings = (finding for finding in report.findings if finding.remedy.kind == "role")
    return replace(report, findings=tuple(finding for finding in findings if finding.verdict not in HOLDS))
