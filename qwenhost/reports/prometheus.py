"""The report as a file for node_exporter's textfile collector (Prometheus text format 0.0.4).

Samples carry no time of their own, because the collector refuses them; the time of the run is a metric.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime

from qwenhost import __version__
from qwenhost.records.finding import HostReport, Verdict

Labels = dict[str, str]
Sample = tuple[Labels, float]

ORDER = tuple(Verdict)
"""Worst last."""


def render(reports: Sequence[HostReport]) -> str:
    """Return all metrics; ends with a line feed, as the format wants."""
    return "".join(f"{line}\n" for line in _lines(reports))


def _lines(reports: Sequence[HostReport]) -> Iterator[str]:
    yield from _metric("build_info", "Version that made this file.", [({"version": __version__}, 1)])
    yield from _metric("run_timestamp_seconds", "Unix time at which this file was made.", [({}, int(time.time()))])
    yield from _metric(
        "host_examined",
        "Whether the host could be examined (1) or not (0).",
        [({"host": report.host, "sku": report.sku}, float(not report.error)) for report in reports],
    )
    yield from _metric(
        "host_examined_timestamp_seconds",
        "Unix time at which the host was read, by its own clock.",
        [({"host": report.host}, at) for report in reports if (at := _seconds(report.examined_at))],
    )
    yield from _metric(
        "findings",
        "Findings of the host by verdict.",
        [
            ({"host": report.host, "verdict": verdict.value}, report.count(verdict))
            for report in reports
            if not report.error
            for verdict in Verdict
        ],
    )
    yield from _metric(
        "check_verdict",
        "Worst verdict of a check on a subject, named in the label; the value is always 1.",
        [(labels, 1) for report in reports for labels in _verdicts(report)],
    )


def _verdicts(report: HostReport) -> Iterator[Labels]:
    """Yield one set of labels per check and subject: the collector refuses a sample that stands twice."""
    worst: dict[tuple[str, str], Verdict] = {}
    for finding in report.findings:
        key = (finding.check, finding.subject)
        worst[key] = max(worst.get(key, finding.verdict), finding.verdict, key=ORDER.index)
    for (check, subject), verdict in worst.items():
        yield {"host": report.host, "check": check, "subject": subject, "verdict": verdict.value}


def _metric(name: str, meaning: str, samples: Sequence[Sample]) -> Iterator[str]:
    if samples:
        yield f"# HELP qwenhost_{name} {meaning}"
        yield f"# TYPE qwenhost_{name} gauge"
    for labels, value in samples:
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"qwenhost_{name}{{{told}}} {value:.15g}" if told else f"qwenhost_{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _seconds(at: str) -> float:
    """Return Unix time, 0 for what is no time."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0
