"""The plan for people: what each host needs, why, and what keeps a host from being touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from qwenhost.records.finding import Finding, HostReport
from qwenhost.records.plan import Plan

SHOWN = 4
"""Findings named per role; the rest are counted."""


def plan_lines(reports: Mapping[str, HostReport], plans: Mapping[str, Plan], force: bool) -> Iterator[str]:
    """Yield the plan, host by host."""
    for host, plan in plans.items():
        if reports[host].error:
            yield f"{host}: not examined, nothing will be changed here"
        elif plan.blockers and not force:
            yield f"{host}: stopped, nothing will be changed here ({len(plan.blockers)} that no role can fix)"
            yield from (f"  {finding.check} {finding.subject}: {_what(finding)}" for finding in plan.blockers)
        elif plan.steps:
            yield f"{host}: will run {', '.join(plan.roles)}"
            for step in plan.steps:
                yield f"  {step.role}: {_reasons(step.findings)}"
        else:
            yield f"{host}: nothing to change"


def drift_lines(reports: Iterable[HostReport]) -> Iterator[str]:
    """Yield what differs from the declaration, host by host, with the role that sets it."""
    for report in reports:
        if report.error:
            yield f"{report.host}: not examined: {report.error}"
        elif not report.findings:
            yield f"{report.host}: as declared"
        else:
            yield f"{report.host}: {len(report.findings)} not as declared"
        for finding in report.findings:
            yield f"  {finding.check} {finding.subject}: {_what(finding)} [{finding.remedy.role}]"


def _reasons(findings: tuple[Finding, ...]) -> str:
    named = [f"{finding.check} {finding.subject} ({_what(finding)})" for finding in findings[:SHOWN]]
    more = [f"and {len(findings) - SHOWN} more"] if len(findings) > SHOWN else []
    return "; ".join(named + more)


def _what(finding: Finding) -> str:
    return f"{finding.observed}, wanted {finding.expected}" if finding.expected else finding.observed
