"""`qwenhost explain ID`: why a check is there, how to see it by hand, its thresholds and their origin."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from qwenhost.records.finding import Finding


@click.command()
@click.argument("check_id", metavar="ID")
@click.option("--host", metavar="HOST", help="Ask this host, and show what is expected of it and why.")
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Ansible inventory that HOST is in.")
@click.option("--bundle", metavar="PATH", help="Ask a recorded bundle.")
def command(check_id: str, host: str | None, inventory: Path | None, bundle: str | None) -> None:
    """Explain the check ID: why an operator cares, what would put it right, how to see it by hand, its thresholds.

    With a host or bundle also what it says there, and where each expected value comes from.
    """
    from qwenhost.reports.explanations import explain_lines
    from qwenhost.workflows.explain import explain

    for row in explain_lines(explain(check_id)):
        click.echo(row)
    if host or bundle:
        for row in _findings(check_id, host, inventory, bundle):
            click.echo(row)
    sys.stdout.flush()


def _findings(check_id: str, host: str | None, inventory: Path | None, bundle: str | None) -> Iterator[str]:
    from qwenhost.workflows import doctor, hosts

    chosen = hosts.choose([host] if host else [], inventory)
    report = (
        doctor.examine_recorded(bundle, hosts.one_or_none(chosen)) if bundle else doctor.examine_hosts(chosen)[0]
    )
    yield f"{report.host}: {report.error or report.sku or 'product not known'}"
    for finding in report.findings:
        if finding.check == check_id:
            yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"  {finding.verdict.value.upper()} {finding.subject}: {finding.observed or 'no value'}"
    for name in ("expected", "origin", "evidence", "cause"):
        if getattr(finding, name):
            yield f"    {name}: {getattr(finding, name)}"
