"""What to do next, derived from the remedies of what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.reports.grouping import enumerated

KINDS = ("hardware", "firmware", "hand", "reboot")
"""What a role cannot do, in the order in which it is best done."""

ROOT = "0"

ALARMING = (Verdict.FAIL, Verdict.WARN)


def next_steps(reports: Sequence[HostReport], again: str) -> Iterator[str]:
    """Return one sentence per act, with the hosts and checks it is for; roles last, as one command."""
    open_findings = [
        (report.host, finding) for report in reports for finding in report.findings if _needs_act(finding)
    ]
    limited = [report.host for report in reports if _ran_without_root(report)]
    if limited:
        yield f"Examine again as root, to see what is hidden from others ({enumerated(limited)})"
    for kind in KINDS:
        yield from _acts([item for item in open_findings if item[1].remedy.kind == kind], len(reports) > 1)
    roles = sorted({finding.remedy.role for _, finding in open_findings if finding.remedy.kind == "role"})
    if roles:
        yield f"{again} (runs {', '.join(roles)})"


def _needs_act(finding: Finding) -> bool:
    """What was not seen asks for no act: nobody knows whether one is needed."""
    return finding.verdict in ALARMING and not finding.cause and finding.remedy.kind != "none"


def _ran_without_root(report: HostReport) -> bool:
    """The probe notes the user that it ran as; a recorded bundle of others' tools does not."""
    return report.count(Verdict.UNKNOWN) > 0 and report.notes.get("user_id", ROOT) != ROOT


def _acts(items: Iterable[tuple[str, Finding]], name_hosts: bool) -> Iterator[str]:
    acts: dict[str, list[tuple[str, str]]] = {}
    for host, finding in items:
        acts.setdefault(finding.remedy.text, []).append((host, finding.check))
    for text, wanted in acts.items():
        checks = enumerated(list(dict.fromkeys(check for _, check in wanted)))
        hosts = enumerated(list(dict.fromkeys(host for host, _ in wanted)))
        yield f"{text} ({hosts}: {checks})" if name_hosts else f"{text} ({checks})"
