"""Hosts by subjects, the worst verdict in each cell: a fleet at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qwenhost.records.finding import HostReport, Verdict

ORDER = tuple(Verdict)
"""Worst last."""

CALM = (Verdict.PASS, Verdict.SKIP)


@dataclass(frozen=True)
class Matrix:
    """`rows`: one per host, a verdict per column; None where nothing was asked. `calm`: subjects left out,
    because all hosts pass there.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[HostReport, tuple[Verdict | None, ...]], ...]
    calm: tuple[str, ...]


def matrix(reports: Sequence[HostReport]) -> Matrix:
    """Return the table of a fleet."""
    worst = [_worst(report) for report in reports]
    subjects = tuple(dict.fromkeys(subject for cells in worst for subject in cells))
    loud = tuple(name for name in subjects if any(cells.get(name, Verdict.SKIP) not in CALM for cells in worst))
    rows = tuple(
        (report, tuple(cells.get(name) for name in loud)) for report, cells in zip(reports, worst, strict=True)
    )
    return Matrix(loud, rows, tuple(name for name in subjects if name not in loud))


def _worst(report: HostReport) -> dict[str, Verdict]:
    """Return the worst verdict per subject: the part of a check's id before the dot."""
    worst: dict[str, Verdict] = {}
    for finding in report.findings:
        subject = finding.check.partition(".")[0]
        worst[subject] = max(worst.get(subject, ORDER[0]), finding.verdict, key=ORDER.index)
    return worst
