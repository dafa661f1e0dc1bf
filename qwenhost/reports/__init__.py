"""Findings and changes as text for people and as versioned JSON. Only here do records become words."""

from __future__ import annotations

from collections.abc import Iterable

from qwenhost.records.errors import FAILED, UNSEEN
from qwenhost.records.finding import HostReport, Verdict


def exit_code(reports: Iterable[HostReport], *, strict: bool = False) -> int:
    """Return 1 when something failed, 3 when something that applies was not seen, else 0.

    A host that could not be examined was not seen. With `strict` a warning is a failure.
    """
    told = list(reports)
    alarms = (Verdict.FAIL, Verdict.WARN) if strict else (Verdict.FAIL,)
    if any(report.count(verdict) for report in told for verdict in alarms):
        return FAILED
    unseen = any(report.error or report.count(Verdict.UNKNOWN) for report in told)
    return UNSEEN if unseen else 0
