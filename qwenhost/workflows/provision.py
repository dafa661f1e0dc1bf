"""Provision hosts: examine, plan, run the roles that are needed, examine again, smoke-test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qwenhost.plan import make_plan
from qwenhost.records.finding import Change, Finding, HostReport, Remedy, Verdict
from qwenhost.records.host import Host
from qwenhost.records.plan import Plan
from qwenhost.workflows.doctor import examine_hosts
from qwenhost.workflows.playbook import Observer, PlaybookOptions, PlaybookRun, run_playbook

PLAYBOOK_FINDING = "provision.playbook"
"""Check id under which a role's failure stands in the report."""


@dataclass(frozen=True)
class Survey:
    """What was found before anything is changed, and what would be done about it, by host name."""

    hosts: tuple[Host, ...]
    reports: Mapping[str, HostReport]
    plans: Mapping[str, Plan] = field(default_factory=dict)

    def stopped(self, force: bool) -> tuple[str, ...]:
        """Hosts on which nothing may be changed: not reached, or with a blocker and no `force`."""
        return tuple(
            name
            for name, report in self.reports.items()
            if report.error or (self.plans[name].blockers and not force)
        )

    def to_change(self, force: bool) -> tuple[str, ...]:
        """Hosts on which at least one role has to run."""
        stopped = self.stopped(force)
        return tuple(name for name in self.reports if name not in stopped and self.plans[name].steps)


def survey(hosts: Sequence[Host]) -> Survey:
    """Examine all hosts over SSH, in parallel, and plan; one that cannot be reached stays in, with its error."""
    reports = {report.host: report for report in examine_hosts(hosts)}
    plans = {name: make_plan(report.findings) for name, report in reports.items()}
    return Survey(tuple(hosts), reports, plans)


@dataclass(frozen=True)
class ProvisionOptions:
    """`check` previews without changing; `force` goes on in spite of findings that no role can fix."""

    inventory: Path
    check: bool = False
    diff: bool = False
    force: bool = False


def provision(before: Survey, options: ProvisionOptions, observe: Observer) -> tuple[HostReport, ...]:
    """Run the roles on the hosts that need them and return every host's report as it is afterwards.

    Hosts that need nothing, or on which nothing may be done, keep their first report.
    """
    names = before.to_change(options.force)
    if not names:
        return tuple(before.reports.values())
    run = run_playbook("provision", _playbook_options(options, names), observe)
    after = {name: before.reports[name] for name in names}
    if not options.check:
        after = {report.host: report for report in examine_hosts([h for h in before.hosts if h.name in names])}
    return tuple(
        _told(after[name], run, options) if name in after else report for name, report in before.reports.items()
    )


def _playbook_options(options: ProvisionOptions, names: Sequence[str]) -> PlaybookOptions:
    return PlaybookOptions(
        inventory=options.inventory,
        limit=",".join(names),
        check=options.check,
        diff=options.diff,
        extra={"qwenhost_force": True} if options.force else {},
    )


def _told(report: HostReport, run: PlaybookRun, options: ProvisionOptions) -> HostReport:
    """Return the report with what the run did, what its smoke test found, and where it broke off."""
    changes: list[Change] = run.changes.get(report.host, [])
    findings = [*report.findings, *(finding_from_json(item) for item in run.smoke.get(report.host, []))]
    broken = run.failures.get(report.host) or run.unreachable.get(report.host)
    if broken and not any(finding.verdict is Verdict.FAIL for finding in findings):
        findings.append(Finding(PLAYBOOK_FINDING, "host", Verdict.FAIL, observed=broken))
    notes = {**report.notes, "preview": "nothing was changed"} if options.check else report.notes
    return replace(report, findings=tuple(findings), changes=tuple(changes), notes=notes)


def finding_from_json(item: Mapping[str, Any]) -> Finding:
    """Read a finding from its JSON form, as an action plugin returns it."""
    return Finding(**{**item, "verdict": Verdict(item["verdict"]), "remedy": Remedy(**item["remedy"])})
