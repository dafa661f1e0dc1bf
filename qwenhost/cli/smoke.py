"""`qwenhost smoke`: ask a served model a question and check the answer."""

from __future__ import annotations

from pathlib import Path

import click

from qwenhost.records.errors import FAILED, UNSEEN, QwenhostError
from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.reports import json_report
from qwenhost.workflows import hosts, served, smoke


@click.command()
@click.argument("targets", nargs=-1, metavar="URL | [HOST]...")
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Inventory that declares the HOSTs.")
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts of the inventory.")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="File that holds the API key (URL only).")
@click.option("--model", default="", help="Served name (URL only); left out: whatever is served first.")
@click.option("--question", default=smoke.QUESTION, show_default=True)
@click.option("--expect", default=smoke.EXPECT, show_default=True, help="Regular expression for the answer.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(
    targets: tuple[str, ...],
    inventory: Path | None,
    limit: str,
    api_key_file: Path | None,
    model: str,
    question: str,
    expect: str,
    as_json: bool,
) -> int:
    """Ask the model served at URL, or on hosts of an inventory, a question and check the answer.

    Also looks at health, served name, streaming, refusal of wrong keys and metrics. Requests to hosts of
    an inventory are sent from the host itself; its API key stays there.
    """
    if inventory is not None:
        reports = served.smoke_hosts(hosts.choose(targets, inventory, limit), question, expect)
    elif len(targets) == 1:
        key = _read_key(api_key_file) if api_key_file else ""
        findings = smoke.smoke(targets[0], key, model, question=question, expect=expect)
        reports = (HostReport(targets[0], "", findings),)
    else:
        raise QwenhostError("one URL, or -i INVENTORY", hint="such as qwenhost smoke http://127.0.0.1:8000")
    click.echo(json_report.render(reports) if as_json else "\n".join(map(_rows, reports)))
    return max(map(_exit_code, reports), key=SEVERITY.index)


SEVERITY = (0, UNSEEN, FAILED)
"""Exit codes, worst last."""


def _read_key(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise QwenhostError(f"cannot read the API key: {path}: {error}") from error
    if not key or not key.isascii() or not key.isprintable():
        raise QwenhostError(f"{path} holds no API key", hint="one line of printable ASCII is expected")
    return key


def _rows(report: HostReport) -> str:
    head = [f"{report.host}: {report.error}"] if report.error else [report.host]
    return "\n".join([*head, *(line for finding in report.findings for line in _row(finding))])


def _row(finding: Finding) -> list[str]:
    """Answers are the point of this command, so passed checks are shown, too."""
    row = [f"{finding.verdict:<8}{finding.check:<20}{finding.observed}"]
    if finding.verdict is not Verdict.FAIL:
        return row
    return [*row, f"{'':8}expected: {finding.expected}", f"{'':8}{finding.remedy.text}"]


def _exit_code(report: HostReport) -> int:
    if report.count(Verdict.FAIL):
        return FAILED
    return UNSEEN if report.count(Verdict.UNKNOWN) or report.error else 0
