"""`qwenhost provision INVENTORY`: verify, tune, partition, serve, prove."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from qwenhost.records.errors import USAGE, QwenhostError

if TYPE_CHECKING:
    from qwenhost.reports.progress import Progress
    from qwenhost.workflows.provision import ProvisionOptions, Survey


@click.command()
@click.argument("inventory", type=click.Path(path_type=Path))
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts (an Ansible pattern).")
@click.option("--check", is_flag=True, help="Say what would change; change nothing.")
@click.option("--diff", is_flag=True, help="Show contents before and after.")
@click.option("--yes", is_flag=True, help="Do not ask before changing hosts.")
@click.option("--force", is_flag=True, help="Go on in spite of findings that no role can fix.")
@click.option("--strict", is_flag=True, help="A warning counts as a failure.")
@click.option("--json", "as_json", is_flag=True, help="The final report as JSON on standard output.")
@click.option("--events", type=click.File("a"), help="Append a JSON line for every task to this file.")
@click.option("-v", "--verbose", is_flag=True, help="A line for every task.")
def command(
    inventory: Path,
    limit: str,
    check: bool,
    diff: bool,
    yes: bool,
    force: bool,
    strict: bool,
    as_json: bool,
    events: TextIO | None,
    verbose: bool,
) -> None:
    """Bring the hosts of INVENTORY to what it declares, and prove that they serve.

    Examines first, changes only what does not hold, examines again and asks the served model.
    A host with a finding that no role can fix (a narrow PCIe link) is left untouched. A second run
    finds nothing to change.
    """
    from qwenhost.reports import exit_code, json_report, text
    from qwenhost.reports.events import written
    from qwenhost.reports.plan_text import plan_lines
    from qwenhost.reports.progress import Progress
    from qwenhost.workflows.inventory import load_hosts
    from qwenhost.workflows.provision import ProvisionOptions, provision, survey

    options = ProvisionOptions(inventory, check=check, diff=diff, force=force)
    before = survey(load_hosts(inventory, limit))
    for line in plan_lines(before.reports, before.plans, force):
        click.echo(line, err=True)
    _agree(before, options, yes)
    with Progress(before.to_change(force), sys.stderr, verbose=verbose, output=diff) as progress:
        try:
            reports = provision(before, options, written(events, progress) if events else progress)
        except KeyboardInterrupt:
            _tell_what_may_go_on(progress)
            raise
    if as_json:
        click.echo(json_report.render(reports))
    else:
        text.write(reports, sys.stdout, again=f"qwenhost provision {inventory}")
        click.echo(f"{sum(len(report.changes) for report in reports)} changed")
    sys.exit(exit_code(reports, strict=strict))


def _tell_what_may_go_on(progress: Progress) -> None:
    """A task that was sent to a host is not taken back by ending the controller."""
    for host, task in progress.doing.items():
        click.echo(f"{host}: interrupted at {task}, which may still run there; run it again to go on", err=True)


def _agree(before: Survey, options: ProvisionOptions, yes: bool) -> None:
    """Ask before anything is changed; without a terminal the answer has to be given beforehand."""
    names = before.to_change(options.force)
    if not names or yes or options.check:
        return
    if not sys.stdin.isatty():
        raise QwenhostError(
            "nobody to ask on this terminal", hint="add --yes, or --check to preview", exit_code=USAGE
        )
    click.confirm(f"Change {', '.join(names)}?", abort=True, err=True)
