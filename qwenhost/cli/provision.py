"""`qwenhost provision INVENTORY`: verify, tune, partition, serve, prove."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from qwenhost.cli.passwords import takes_passwords
from qwenhost.records.errors import USAGE, QwenhostError
from qwenhost.records.finding import HostReport

if TYPE_CHECKING:
    from qwenhost.reports.progress import Progress
    from qwenhost.workflows.provision import Provisioned, ProvisionOptions, Survey


@dataclass(frozen=True)
class Shown:
    """How a run tells what it does: `strict` counts warnings as failures."""

    strict: bool
    as_json: bool
    events: TextIO | None
    no_state: bool
    verbose: bool


@click.command()
@click.argument("inventory", type=click.Path(path_type=Path))
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts (an Ansible pattern).")
@click.option("--check", is_flag=True, help="Say what would change; change nothing.")
@click.option("--diff", is_flag=True, help="Show contents before and after.")
@click.option("--yes", is_flag=True, help="Do not ask before changing hosts.")
@click.option("--force", is_flag=True, help="Go on in spite of findings that no role can fix.")
@click.option("--reboot", is_flag=True, help="Reboot hosts where something waits for it: once, before they serve.")
@click.option("--serial", default="", metavar="N|N%", help="Change so many hosts at a time.")
@click.option(
    "--max-fail",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --serial: begin no other batch when more than N hosts have failed.  [default: 0]",
)
@click.option("--strict", is_flag=True, help="A warning counts as a failure.")
@click.option("--json", "as_json", is_flag=True, help="The final report as JSON on standard output.")
@click.option("--events", type=click.File("a"), help="Append a JSON line for every task to this file.")
@click.option("--no-state", is_flag=True, help="Keep no report and no events of this run.")
@click.option("-v", "--verbose", is_flag=True, help="A line for every task.")
@takes_passwords
def command(inventory: Path, limit: str, yes: bool, **given: Any) -> None:
    """Bring the hosts of INVENTORY to what it declares, and prove that they serve.

    Examines first, changes only what does not hold, examines again and asks the served model.
    A host with a finding that no role can fix (a narrow PCIe link) is left untouched. A second run
    finds nothing to change.

    Report and events of a run that changes hosts are kept under $XDG_STATE_HOME/qwenhost/runs, the last 20.
    """
    from qwenhost.reports import exit_code
    from qwenhost.reports.plan_text import plan_lines
    from qwenhost.workflows.inventory import load_hosts, refuse_one_host_twice
    from qwenhost.workflows.provision import survey

    shown = Shown(**{name: given.pop(name) for name in Shown.__dataclass_fields__})
    options = _options(inventory, **given)
    hosts = load_hosts(inventory, limit)
    refuse_one_host_twice(hosts)
    before = survey(hosts, options)
    for line in plan_lines(before.reports, before.plans, before.consents):
        click.echo(line, err=True)
    _agree(before, options, yes)
    done = _provision(before, options, shown)
    if done.not_begun:
        _tell(f"stopped: {', '.join(done.failed)} failed; not begun: {', '.join(done.not_begun)}")
    _write(done.reports, options, shown)
    sys.exit(exit_code(done.reports, strict=shown.strict))


def _options(inventory: Path, serial: str, max_fail: int | None, **flags: bool) -> ProvisionOptions:
    from qwenhost.workflows.batches import batches
    from qwenhost.workflows.provision import ProvisionOptions

    if max_fail is not None and not serial:
        raise QwenhostError("--max-fail counts between batches of hosts", hint="add --serial N")
    batches((), serial)  # refused before any host is asked
    return ProvisionOptions(inventory, serial=serial, max_fail=max_fail or 0, **flags)


def _provision(before: Survey, options: ProvisionOptions, shown: Shown) -> Provisioned:
    """Run, and show and keep what happens meanwhile."""
    from qwenhost.reports.events import written
    from qwenhost.reports.progress import Progress
    from qwenhost.workflows.provision import provision
    from qwenhost.workflows.run_folder import open_run_folder

    wanted = before.to_change and not shown.no_state
    folder = open_run_folder(options.inventory, _tell) if wanted else None
    with Progress(before.to_change, sys.stderr, verbose=shown.verbose, output=options.diff) as progress:
        observe = written(shown.events, progress) if shown.events else progress
        try:
            done = provision(before, options, folder.observer(observe) if folder else observe)
        except KeyboardInterrupt:
            _tell_what_may_go_on(progress)
            raise
    if folder:
        folder.finish(done.reports, _again(options))
    return done


def _write(reports: Sequence[HostReport], options: ProvisionOptions, shown: Shown) -> None:
    from qwenhost.reports import json_report, text

    if shown.as_json:
        click.echo(json_report.render(reports))
        return
    text.write(reports, sys.stdout, again=_again(options))
    did = "would change" if options.check else "changed"
    click.echo(f"{sum(len(report.changes) for report in reports)} {did}")


def _again(options: ProvisionOptions) -> str:
    return f"qwenhost provision {options.inventory}"


def _tell(message: str) -> None:
    click.echo(f"qwenhost: {message}", err=True)


def _tell_what_may_go_on(progress: Progress) -> None:
    """A task that was sent to a host is not taken back by ending the controller."""
    from qwenhost.reports.progress import WAITING

    for host, task in progress.doing.items():
        told = f"interrupted at {task}, which may still run there; run it again to go on"
        click.echo(f"{host}: {'not begun' if task == WAITING else told}", err=True)


def _agree(before: Survey, options: ProvisionOptions, yes: bool) -> None:
    """Ask before anything is changed; without a terminal the answer has to be given beforehand."""
    if not before.to_change or yes or options.check:
        return
    if not sys.stdin.isatty():
        raise QwenhostError(
            "nobody to ask on this terminal", hint="add --yes, or --check to preview", exit_code=USAGE
        )
    reboots = f", and reboot {', '.join(before.to_reboot)}" if before.to_reboot else ""
    click.confirm(f"Change {', '.join(before.to_change)}{reboots}?", abort=True, err=True)
