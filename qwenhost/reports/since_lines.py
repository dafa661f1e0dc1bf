"""What changed since the run before, a line for each check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qwenhost.records.since import Past, Since
from qwenhost.reports.grouping import HOST, enumerated

CHANGES = {"new": "new", "gone": "gone", "unchanged": "unchanged", "unseen": "not judged now"}
"""Kind of change -> how it is called in text."""


def since_rows(since: Since) -> Iterator[tuple[str, str]]:
    """Yield what kind of change and what it is about, the new ones first."""
    for kind, name in CHANGES.items():
        groups: dict[tuple[str, ...], list[Past]] = {}
        for past in getattr(since, kind):
            groups.setdefault(
                (past.check, past.verdict, past.was, past.step if past.escalated else ""), []
            ).append(past)
        for pasts in groups.values():
            yield name, f"{_what(pasts)}{_history(pasts) if kind in ('unchanged', 'unseen') else ''}"


def _what(pasts: Iterable[Past]) -> str:
    first, *_ = told = list(pasts)
    subjects = list(dict.fromkeys(past.subject for past in told))
    where = "" if subjects == [HOST] else f" on {enumerated(subjects)}"
    verdict = f"{first.was} -> {first.verdict}" if first.was else first.verdict
    return f"{first.check}{where} ({verdict})"


def _history(pasts: Iterable[Past]) -> str:
    oldest = max(pasts, key=lambda past: past.runs)
    advice = f"; advice now: {oldest.step}" if oldest.escalated else ""
    return f", {oldest.runs} run{'s' if oldest.runs > 1 else ''} since {oldest.first_seen_at[:10]}{advice}"
