"""Provision hosts: examine, plan, run the roles that are needed, examine again, smoke-test."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qwenhost.plan import make_plan
from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Change, Finding, HostReport, Remedy, Verdict
from qwenhost.records.host import Host
from qwenhost.records.plan import REBOOT, Consent, Plan
from qwenhost.workflows.batches import batches
from qwenhost.workflows.doctor import examine_hosts
from qwenhost.workflows.inventory import TRUE
from qwenhost.workflows.playbook import Observer, PlaybookOptions, PlaybookRun, run_playbook

PLAYBOOK_FINDING = "provision.playbook"
"""Check id under which a role's failure stands in the report."""

FRESH_SECONDS = 60
"""How long an answer may wait for somebody's consent, and for hosts before, to be still what a host is."""

MAY_REBOOT = "qwenhost_reboot"
FORCED = "qwenhost_force"


@dataclass(frozen=True)
class ProvisionOptions:
    """`check` previews without changing; `force` goes on in spite of findings that no role can fix.

    `reboot`: hosts may be rebooted, once. `serial`: hosts at a time, as `batches` has it; no batch is begun when
    more than `max_fail` hosts have failed.
    """

    inventory: Path
    check: bool = False
    diff: bool = False
    force: bool = False
    reboot: bool = False
    serial: str = ""
    max_fail: int = 0

    def consent(self, host: Host) -> Consent:
        """Return what may be done to a host, on account of the options and of its inventory."""
        declared = {name for name in (MAY_REBOOT, FORCED) if str(host.variables.get(name, "")).lower() in TRUE}
        return Consent(force=self.force or FORCED in declared, reboot=self.reboot or MAY_REBOOT in declared)


@dataclass(frozen=True)
class Survey:
    """What was found before anything is changed, what would be done about it, and what may be, by host name."""

    hosts: tuple[Host, ...]
    reports: Mapping[str, HostReport]
    plans: Mapping[str, Plan]
    consents: Mapping[str, Consent]
    at: float = -math.inf
    """When the hosts had answered, in seconds of the monotonic clock."""

    @property
    def to_change(self) -> tuple[str, ...]:
        """Hosts on which something has to be done, and may be."""
        return tuple(name for name in self.reports if self._acts(name))

    @property
    def to_reboot(self) -> tuple[str, ...]:
        """Those of them that will be rebooted for what is known now."""
        return tuple(name for name in self.to_change if REBOOT in self._acts(name))

    def bundles(self, names: Iterable[str]) -> tuple[Bundle, ...]:
        """Return what hosts answered, while it may be taken for what they are."""
        fresh = time.monotonic() - self.at < FRESH_SECONDS
        return tuple(bundle for name in names if (bundle := self.reports[name].bundle) and fresh)

    def _acts(self, name: str) -> tuple[str, ...]:
        return () if self.reports[name].error else self.plans[name].acts(self.consents[name])


def survey(hosts: Sequence[Host], options: ProvisionOptions) -> Survey:
    """Examine all hosts over SSH, in parallel, and plan; one that cannot be reached stays in, with its error."""
    reports = {report.host: report for report in examine_hosts(hosts)}
    plans = {name: make_plan(report.findings) for name, report in reports.items()}
    consents = {host.name: options.consent(host) for host in hosts}
    return Survey(tuple(hosts), reports, plans, consents, time.monotonic())


@dataclass(frozen=True)
class Provisioned:
    """Every host's report as it is afterwards; the hosts that failed, and those that were not begun for it."""

    reports: tuple[HostReport, ...]
    failed: tuple[str, ...] = ()
    not_begun: tuple[str, ...] = ()


def provision(before: Survey, options: ProvisionOptions, observe: Observer) -> Provisioned:
    """Run the roles on the hosts that need them, batch by batch, and report on all.

    Hosts that need nothing, or on which nothing may be done, keep their first report.
    """
    runs: dict[str, PlaybookRun] = {}
    failed: list[str] = []
    for batch in batches(before.to_change, options.serial):
        if len(failed) > options.max_fail:
            break
        run = run_playbook("provision", _playbook_options(options, batch, before.bundles(batch)), observe)
        runs |= dict.fromkeys(batch, run)
        failed += [name for name in batch if run.broken(name)]
    left = tuple(name for name in before.to_change if name not in runs)
    after = _examined([host for host in before.hosts if host.name in runs], before, runs, options)
    reports = {name: _told(after[name], run, options) for name, run in runs.items()}
    stopped = {name: _not_begun(before.reports[name], failed) for name in left}
    return Provisioned(tuple({**before.reports, **reports, **stopped}.values()), tuple(failed), left)


def _examined(
    hosts: Sequence[Host], before: Survey, runs: Mapping[str, PlaybookRun], options: ProvisionOptions
) -> Mapping[str, HostReport]:
    """Judge what the hosts were when their runs ended; one whose run broke off is asked what it is now."""
    if options.check or not hosts:
        return before.reports
    known = {name: run.bundles[name] for name, run in runs.items() if name in run.bundles}
    return {report.host: report for report in examine_hosts(hosts, known=known)}


def _playbook_options(
    options: ProvisionOptions, names: Sequence[str], bundles: Sequence[Bundle]
) -> PlaybookOptions:
    switches = {FORCED: options.force, MAY_REBOOT: options.reboot}
    return PlaybookOptions(
        inventory=options.inventory,
        limit=",".join(names),
        check=options.check,
        diff=options.diff,
        extra={name: True for name, given in switches.items() if given},
        bundles=bundles,
    )


def _told(report: HostReport, run: PlaybookRun, options: ProvisionOptions) -> HostReport:
    """Return the report with what the run did, what its smoke test found, and where it broke off."""
    changes: list[Change] = run.changes.get(report.host, [])
    findings = [*report.findings, *(finding_from_json(item) for item in run.smoke.get(report.host, []))]
    broken = run.broken(report.host)
    told = report.host in run.told_by_findings and any(each.verdict is Verdict.FAIL for each in findings)
    if broken and not told:
        findings.append(Finding(PLAYBOOK_FINDING, "host", Verdict.FAIL, observed=broken))
    notes = {**report.notes, "preview": "nothing was changed"} if options.check else report.notes
    return replace(report, findings=tuple(findings), changes=tuple(changes), notes=notes)


def _not_begun(report: HostReport, failed: Sequence[str]) -> HostReport:
    return replace(report, notes={**report.notes, "not_begun": f"failed before it: {', '.join(failed)}"})


def finding_from_json(item: Mapping[str, Any]) -> Finding:
    """Read a finding from its JSON form, as an action plugin returns it."""
    return Finding(**{**item, "verdict": Verdict(item["verdict"]), "remedy": Remedy(**item["remedy"])})
