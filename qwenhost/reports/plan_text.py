"""The plan for people: what each host needs, why, and what keeps a host from being touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.records.plan import REBOOT, Consent, Plan

SHOWN = 4
"""Findings named per role; the rest are counted."""

SERVES = "vllm.ready"
"""Passes where the host serves now."""


def plan_lines(
    reports: Mapping[str, HostReport], plans: Mapping[str, Plan], consents: Mapping[str, Consent]
) -> Iterator[str]:
    """Yield the plan, host by host."""
    for host, plan in plans.items():
        if reports[host].error:
            yield f"{host}: not examined, nothing will be changed here"
        elif stoppers := plan.stoppers(consents[host]):
            yield f"{host}: stopped, nothing will be changed here ({len(stoppers)} that no role can fix)"
            yield from (f"  {_stopper(finding)}" for finding in stoppers)
        else:
            yield from _act_lines(reports[host], plan, plan.acts(consents[host]))


def _act_lines(report: HostReport, plan: Plan, acts: tuple[str, ...]) -> Iterator[str]:
    yield f"{report.host}: will {', then '.join(_stages(acts))}" if acts else f"{report.host}: nothing to change"
    for step in plan.steps:
        yield f"  {step.role}: {_reasons(step.findings)}"
    if REBOOT in acts:
        serves = any(finding.check == SERVES and finding.verdict is Verdict.PASS for finding in report.findings)
        yield f"  {REBOOT}{' (it serves now)' if serves else ''}: {_reasons(plan.reboots)}"
    elif plan.reboots:
        yield f"  waits for a reboot: {_reasons(plan.reboots)}; --reboot allows it"


def _stages(acts: tuple[str, ...]) -> Iterator[str]:
    """Yield what is done between one reboot and the next."""
    for reboots, names in groupby(acts, lambda act: act == REBOOT):
        yield REBOOT if reboots else f"run {', '.join(names)}"


def _stopper(finding: Finding) -> str:
    allowed = " [a reboot puts it right: --reboot allows it]" if finding.remedy.kind == "reboot" else ""
    return f"{finding.check} {finding.subject}: {_what(finding)}{allowed}"


def drift_lines(reports: Iterable[HostReport]) -> Iterator[str]:
    """Yield what differs from the declaration, host by host, with the role that sets it."""
    for report in reports:
        if report.error:
            yield f"{report.host}: not examined: {report.error.removeprefix(f'{report.host}: ')}"
            yield from [f"  hint: {report.hint}"] if report.hint else ()
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
