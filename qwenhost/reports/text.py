"""The report for people: failures first, a cause with its consequences, then what to do next."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TextIO

from qwenhost.records.finding import HostReport, Verdict
from qwenhost.records.since import Since
from qwenhost.reports.grouping import Group, alarms, consequences, unseen
from qwenhost.reports.lines import Line, line
from qwenhost.reports.matrix import matrix
from qwenhost.reports.next_steps import next_steps
from qwenhost.reports.since_lines import CHANGES, since_rows

NAMES = {Verdict.FAIL: "FAIL", Verdict.WARN: "WARN", Verdict.UNKNOWN: "????", Verdict.NOTE: "note"}
STYLES = {Verdict.FAIL: "bold red", Verdict.WARN: "yellow", Verdict.UNKNOWN: "magenta", Verdict.NOTE: "cyan"}

CELLS = {**NAMES, Verdict.PASS: "ok", Verdict.SKIP: "-"}
NARROWEST = max(map(len, CELLS.values()))

PREVIEW = "preview"
"""Note of a report whose changes were only tried out."""

CHANGE_STYLES = {"new": "bold red", "gone": "green"}
WIDEST = max(map(len, CHANGES.values()))

COUNTS = (
    (Verdict.FAIL, "failed"),
    (Verdict.WARN, "warned"),
    (Verdict.UNKNOWN, "not seen"),
    (Verdict.NOTE, "noted"),
    (Verdict.PASS, "passed"),
    (Verdict.SKIP, "not applicable"),
)


def write(reports: Sequence[HostReport], stream: TextIO, *, again: str = "qwenhost provision") -> None:
    """Write the report of all hosts; `again` is the command that would run the roles."""
    _put([*report_lines(reports, again)], stream)


def render(reports: Sequence[HostReport], *, again: str = "qwenhost provision") -> str:
    """Return the report without colours."""
    return "".join(f"{row.text}\n" for row in report_lines(reports, again))


def report_lines(reports: Sequence[HostReport], again: str) -> Iterable[Line]:
    """Return the lines of the report: each host, then the matrix of a fleet, then what to do next.

    A host of a fleet with nothing to tell has its line among the others only.
    """
    told = [list(host_lines(report)) for report in reports]
    fleet = len(reports) > 1
    yield from (row for rows in told if len(rows) > 1 or not fleet for row in rows)
    if fleet:
        yield line()
        yield from matrix_lines(reports)
    steps = list(next_steps(reports, again))
    if steps:
        yield line()
        yield line(("Next", "bold"))
        yield from (line(f"  {number}. {step}") for number, step in enumerate(steps, 1))


def host_lines(report: HostReport) -> Iterable[Line]:
    """Return one host: a summary line, then what is wrong, worst first."""
    yield line((report.host, "bold"), ": ", *_summary(report))
    if report.error:
        if report.hint:
            yield line(f"  hint: {report.hint}")
        return
    yield from _alarm_lines(report)
    for missing in unseen(report):
        yield line("  ", (NAMES[Verdict.UNKNOWN], STYLES[Verdict.UNKNOWN]), f" {missing}")
    for group in alarms(report, Verdict.NOTE):
        yield _group_line(group, indent=2)
    if report.since:
        yield from since_lines(report.since)
    did = "would change" if report.notes.get(PREVIEW) else "changed"
    for change in report.changes:
        yield line("  ", (did, "green"), f" {': '.join(filter(None, (change.role, change.task)))}")
    for text in report.notes.get("left_out", "").splitlines():
        yield line(f"  not read whole: {text}")
    for name in report.unrecognised:
        yield line(f"  not recognised, so not used: {name}")


def _alarm_lines(report: HostReport) -> Iterable[Line]:
    """Return failures and warnings; under the last row of a failed check, why it matters and what it caused."""
    groups = alarms(report, Verdict.FAIL, Verdict.WARN)
    last = {group.check: group for group in groups if group.verdict is Verdict.FAIL}
    for group in groups:
        yield from _group_lines(group)
        if last.get(group.check) is group:
            if group.why:
                yield line(f"       why: {group.why}")
            yield from (_group_line(told, indent=7) for told in consequences(report, group.check))


def since_lines(since: Since) -> Iterable[Line]:
    """Return what changed since the run before; nothing where there was and is no alarm."""
    rows = list(since_rows(since))
    if rows:
        yield line(f"  since the run of {since.examined_at}:")
    for name, what in rows:
        yield line("    ", (name.ljust(WIDEST), CHANGE_STYLES.get(name, "")), f" {what}")


def matrix_lines(reports: Sequence[HostReport]) -> Iterable[Line]:
    """Return one line per host: the worst verdict of each subject that is not calm everywhere, and its counts."""
    table = matrix(reports)
    width = max(len(report.host) for report in reports)
    if table.columns:
        yield line(" " * width, *(f"  {name.ljust(NARROWEST)}" for name in table.columns))
    for report, cells in table.rows:
        shown = zip(table.columns, cells, strict=True)
        marks = (part for name, verdict in shown for part in ("  ", _cell(name, verdict)))
        yield line((report.host.ljust(width), "bold"), *marks, "  ", *_summary(report))
    if table.columns and table.calm:
        yield line(f"nothing to tell of {', '.join(table.calm)}")


def _cell(column: str, verdict: Verdict | None) -> tuple[str, str]:
    name = CELLS[verdict] if verdict else ""
    return name.ljust(max(len(column), NARROWEST)), _style(verdict) if verdict else ""


def _summary(report: HostReport) -> tuple[str | tuple[str, str], ...]:
    if report.error:
        return (("not examined", "bold red"), f": {_without_host(report)}")
    product = report.sku or "product not known"
    counts = [(verdict, f"{report.count(verdict)} {word}") for verdict, word in COUNTS if report.count(verdict)]
    parts: list[str | tuple[str, str]] = [product]
    for verdict, text in counts:
        parts += [", ", (text, _style(verdict))]
    return tuple(parts)


def _style(verdict: Verdict) -> str:
    return STYLES.get(verdict, "green" if verdict is Verdict.PASS else "")


def _without_host(report: HostReport) -> str:
    return report.error.removeprefix(f"{report.host}: ")


def _group_lines(group: Group) -> Iterable[Line]:
    yield _group_line(group, indent=2)
    if group.evidence:
        yield line(f"       read: {group.evidence}")


def _group_line(group: Group, indent: int) -> Line:
    name, style = NAMES[group.verdict], STYLES[group.verdict]
    origin = f"  [{group.origin}]" if group.origin else ""
    return line(" " * indent, (name, style), f" {group.check}{group.where}: {group.what}", (origin, "dim"))


def _put(lines: list[Line], stream: TextIO) -> None:
    if not wants_colour(stream):
        stream.writelines(f"{row.text}\n" for row in lines)
        return
    from rich.console import Console  # costs 50 ms, and only a terminal needs it
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for row in lines:
        console.print(Text.assemble(*row.parts))


def wants_colour(stream: TextIO) -> bool:
    """Colour only on a terminal, and never against NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
