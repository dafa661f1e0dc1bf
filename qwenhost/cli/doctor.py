"""`qwenhost doctor`: what is wrong, why it matters, what to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from qwenhost.cli.outputs import Outputs, output_options
from qwenhost.cli.passwords import takes_passwords
from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import HostReport


@dataclass(frozen=True)
class Wanted:
    """Which hosts, held to what, and whether they are tried out as well as read."""

    names: tuple[str, ...]
    inventory: Path | None
    limit: str
    bundle: str | None
    profile: str
    trials: bool

    def __post_init__(self) -> None:
        if self.limit and self.inventory is None:
            raise QwenhostError("--limit needs an inventory", hint="add -i INVENTORY")
        if self.trials and self.bundle is not None:
            raise QwenhostError("--trials needs the host itself, not a bundle of it", hint="leave one of them out")


@click.command()
@click.argument("hosts", nargs=-1)
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Ansible inventory to take hosts from.")
@click.option(
    "--limit", default="", metavar="PATTERN", help="Only these hosts of the inventory (Ansible pattern)."
)
@click.option("--bundle", metavar="PATH", help="Examine a folder, archive or bug report instead; - for stdin.")
@output_options
@click.option("--strict", is_flag=True, help="A warning counts as a failure.")
@click.option("--profile", default="", metavar="NAME", help="Profile of settings to hold hosts to.")
@click.option("--trials", is_flag=True, help="Try out copies and all-reduce, too, on GPUs that nobody uses.")
@click.option("--no-state", is_flag=True, help="Compare with no earlier run, and keep nothing of this one.")
@click.pass_context
@takes_passwords
def command(
    ctx: click.Context,
    hosts: tuple[str, ...],
    inventory: Path | None,
    limit: str,
    bundle: str | None,
    as_json: bool,
    junit: str | None,
    html: str | None,
    prometheus: str | None,
    strict: bool,
    profile: str,
    trials: bool,
    no_state: bool,
) -> None:
    """Examine this host, HOSTS over SSH, the hosts of an inventory, or a recorded bundle. Changes nothing there.

    HOSTS are [user@]name[:port]; with --inventory they are names of hosts in it.

    What is found is kept under $XDG_STATE_HOME/qwenhost, so that the next run tells what is new, gone or
    still there; a recorded bundle is kept only when the host that it is from is named.

    Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage or input, 3 something that applies
    could not be seen.
    """
    from qwenhost.reports import exit_code

    outputs = Outputs("-" if as_json else None, junit, html, prometheus, strict)
    reports = _examine(Wanted(hosts, inventory, limit, bundle, profile, trials), state=not no_state)
    outputs.write(reports, again=_again(inventory))
    ctx.exit(exit_code(reports, strict=strict))


def _examine(wanted: Wanted, state: bool) -> Sequence[HostReport]:
    from qwenhost.workflows import doctor, hosts

    chosen = hosts.choose(wanted.names, wanted.inventory, wanted.limit, wanted.profile)
    if wanted.bundle is not None:
        host = hosts.one_or_none(chosen)
        report = doctor.examine_recorded(wanted.bundle, host, wanted.profile)
        named = (replace(report, host=host.name),) if host else (report,)
        return _compared(named) if host and state else named
    if chosen:
        reports = doctor.examine_hosts(chosen, wanted.trials)
    else:
        reports = (doctor.examine_here(wanted.profile, wanted.trials),)
    return _compared(reports) if state else reports


def _compared(reports: Sequence[HostReport]) -> Sequence[HostReport]:
    from qwenhost.workflows.state import since_last_time

    return since_last_time(reports, lambda message: click.echo(f"qwenhost: {message}", err=True))


def _again(inventory: Path | None) -> str:
    return f"qwenhost provision {shlex.quote(str(inventory)) if inventory else 'INVENTORY'}"
