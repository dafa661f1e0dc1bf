"""The versioned JSON report; its schema is data/report.schema.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from qwenhost import __version__
from qwenhost.records.finding import Finding, HostReport, Verdict

SCHEMA = 1


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
        "error": report.error,
        "hint": report.hint,
        "summary": {verdict.value: report.count(verdict) for verdict in Verdict},
        "findings": [finding_part(finding) for finding in report.findings],
        "changes": [asdict(change) for change in report.changes],
        "unrecognised": list(report.unrecognised),
        "notes": dict(report.notes),
    }


def finding_part(finding: Finding) -> dict[str, Any]:
    """Return one finding with plain values."""
    return {**asdict(finding), "verdict": finding.verdict.value}
