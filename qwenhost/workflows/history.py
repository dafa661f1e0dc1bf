"""This run against the one before: what is new, gone or still there, and which advice has to go further. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from qwenhost.expectations.escalation import escalation
from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.records.since import Past, Remembered, Since

ALARMS = (Verdict.WARN, Verdict.FAIL)
NOT_JUDGED = (Verdict.UNKNOWN, Verdict.SKIP)

NUMBERED = re.compile(r"\bgpu\d+ (?=[0-9a-f]{4}:)")

Key = tuple[str, str]

RESET = "reset"
REBOOT = "reboot"


def compare(
    report: HostReport, before: Remembered | None, at: str, boot: str = ""
) -> tuple[HostReport, Remembered]:
    """Return the report with what changed and with advice that goes further, and what to keep for the next run.

    `at`: time of this run, ISO 8601 UTC. `boot`: id of the host's boot, empty where it was not seen.
    """
    known = {_key(past.check, past.subject): past for past in before.alarms} if before else {}
    now = {key: _seen(finding, known.get(key), at, boot) for key, finding in _alarms(report).items()}
    left = [past for key, past in known.items() if key not in now]
    unseen = tuple(past for past in left if _unjudged(past, report.findings) and not _forgotten(past, at))
    told = replace(report, findings=tuple(_advised(finding, now) for finding in report.findings))
    if before is not None:
        told = replace(told, since=_since(before, now, known, unseen))
    return told, Remembered(at, (*now.values(), *unseen))


def _key(check: str, subject: str) -> Key:
    """Return what tells alarms apart: a GPU with a bus id is that one, whatever number the driver gives it."""
    return check, NUMBERED.sub("gpu ", subject)


def _alarms(report: HostReport) -> dict[Key, Finding]:
    """Return the worst alarm per check and subject."""
    found: dict[Key, Finding] = {}
    for finding in report.findings:
        key = _key(finding.check, finding.subject)
        if finding.verdict is Verdict.FAIL or (finding.verdict is Verdict.WARN and key not in found):
            found[key] = finding
    return found


def _since(
    before: Remembered, now: Mapping[Key, Past], known: Mapping[Key, Past], unseen: tuple[Past, ...]
) -> Since:
    """Sort the alarms. What was and is a consequence only is told under its cause, and not here."""
    told = [key for key in {**known, **now} if any(key in run and not run[key].cause for run in (known, now))]
    return Since(
        examined_at=before.examined_at,
        new=tuple(now[key] for key in told if key not in known),
        gone=tuple(known[key] for key in told if key not in now and known[key] not in unseen),
        unchanged=tuple(now[key] for key in told if key in now and key in known),
        unseen=tuple(known[key] for key in told if known.get(key) in unseen),
    )


def _unjudged(past: Past, findings: Iterable[Finding]) -> bool:
    """Tell whether nobody can say what became of an alarm; one of a check that is no more is none."""
    own = [finding for finding in findings if finding.check == past.check]
    key = _key(past.check, past.subject)
    same = [finding for finding in own if _key(finding.check, finding.subject) == key]
    if same:
        return all(finding.verdict in NOT_JUDGED for finding in same)
    return any(finding.verdict is Verdict.UNKNOWN for finding in own) or (
        bool(own) and all(finding.verdict is Verdict.SKIP for finding in own)
    )


def _forgotten(past: Past, at: str) -> bool:
    return _hours(past.last_seen_at, at) > escalation().forget_days * 24


def _seen(finding: Finding, past: Past | None, at: str, boot: str) -> Past:
    verdict = finding.verdict.value
    if past is None:
        first = _first_step(finding)
        fresh = Past(finding.check, finding.subject, verdict, at, at, cause=finding.cause)
        return replace(fresh, step=first, step_at=at, step_boot=boot)
    was = past.verdict if past.verdict != verdict else ""
    again = replace(past, subject=finding.subject, verdict=verdict, was=was, last_seen_at=at, cause=finding.cause)
    return _further(replace(again, runs=past.runs + 1, step_runs=past.step_runs + 1), at, boot)


def _first_step(finding: Finding) -> str:
    """Return the step that a finding's own remedy amounts to; one that asks for a reboot starts there."""
    first = escalation().first.get(finding.check, "")
    return REBOOT if first and finding.remedy.kind == REBOOT else first


def _further(past: Past, at: str, boot: str) -> Past:
    """Return the alarm with its next step, where the one that was advised has been tried."""
    step = _next_step(past, at, boot)
    if step == past.step:
        return replace(past, step_boot=past.step_boot or boot)
    return replace(past, step=step, step_at=at, step_boot=boot, step_runs=1, escalated=True)


def _next_step(past: Past, at: str, boot: str) -> str:
    """A boot tries a reset as well; without one, a reset counts as tried when it was advised often enough."""
    table = escalation()
    if past.step not in (RESET, REBOOT):
        return past.step
    if past.step_boot and boot and past.step_boot != boot:
        return table.after(REBOOT)
    advised = past.step_runs > table.reset_runs and _hours(past.step_at, at) >= table.reset_hours
    return table.after(RESET) if past.step == RESET and advised else past.step


def _advised(finding: Finding, now: Mapping[Key, Past]) -> Finding:
    past = now.get(_key(finding.check, finding.subject))
    remedy = escalation().steps.get(past.step) if past and past.escalated else None
    if past is None or remedy is None or finding.verdict not in ALARMS:
        return finding
    text = remedy.text.format(first_seen_at=past.first_seen_at[:10])
    return replace(finding, remedy=replace(remedy, text=text))


def _hours(start: str, end: str) -> float:
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() / 3600
    except (ValueError, TypeError):
        return 0.0
