"""`qwenhost drift INVENTORY`: what is no longer as declared."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from qwenhost.cli.passwords import takes_passwords


@click.command()
@click.argument("inventory", type=click.Path(path_type=Path))
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts (an Ansible pattern).")
@click.option("--json", "as_json", is_flag=True, help="Write the versioned JSON report, of these findings only.")
@takes_passwords
def command(inventory: Path, limit: str, as_json: bool) -> None:
    """Say which settings of the hosts of INVENTORY are no longer as declared. Changes nothing.

    Tells only what qwenhost provision would set; qwenhost doctor tells the rest. Exit codes: 0 no drift,
    1 drift, 3 no drift where something could be seen, but a host or a setting that could not.
    """
    from qwenhost.reports import exit_code, json_report
    from qwenhost.reports.plan_text import drift_lines
    from qwenhost.workflows.drift import drift
    from qwenhost.workflows.inventory import load_hosts

    reports = drift(load_hosts(inventory, limit))
    click.echo(json_report.render(reports) if as_json else "\n".join(drift_lines(reports)))
    sys.exit(exit_code(reports, strict=True))
