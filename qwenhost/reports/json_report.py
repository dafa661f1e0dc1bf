"""The versioned JSON report; its schema is data/schemas/doctor.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from qwenhost import __version__
from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.records.since import Past, Since

SCHEMA = 1

CHANGES = ("new", "gone", "unchanged", "unseen")

PAST_FIELDS = ("check", "subject", "verdict", "was", "first_seen_at", "runs", "step", "escalated")


def render(reports: Iterable[HostReport]) -> str:
    """Return the report of all hosts as JSON text."""
    tool = {"name": "qwenhost", "version": __version__}
    document = {"schema": SCHEMA, "tool": tool, "hosts": [host_part(report) for report in reports]}
    return json.dumps(document, indent=1)


def host_part(report: HostReport) -> dict[str, Any]:
    """Return one host's part of the report."""
    return {
        "host": report.host,
        "sku": report.sku,
        "examined_at": report.examined_at,
        "error": report.error,
        "hint": report.hint,
        "summary": {verdict.value: report.count(verdict) for verdict in Verdict},
        "findings": [finding_part(finding) for finding in report.findings],
        "changes": [asdict(change) for change in report.changes],
        "unrecognised": list(report.unrecognised),
        "notes": dict(report.notes),
        "since": since_part(report.since) if report.since else None,
    }


def finding_part(finding: Finding) -> dict[str, Any]:
    """Return one finding with plain values."""
    return {**asdict(finding), "verdict": finding.verdict.value}


def since_part(since: Since) -> dict[str, Any]:
    """Return what changed since the run before."""
    kinds = {name: [past_part(past) for past in getattr(since, name)] for name in CHANGES}
    return {"examined_at": since.examined_at, **kinds}


def past_part(past: Past) -> dict[str, Any]:
    """Return one alarm with its history; how its advice is counted stays inside."""
    return {name: getattr(past, name) for name in PAST_FIELDS}
