"""`qwenhost doctor`: what is wrong, why it matters, what to do."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import HostReport


@click.command()
@click.argument("hosts", nargs=-1)
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Ansible inventory to take hosts from.")
@click.option(
    "--limit", default="", metavar="PATTERN", help="Only these hosts of the inventory (Ansible pattern)."
)
@click.option("--bundle", metavar="PATH", help="Examine a folder, archive or bug report instead; - for stdin.")
@click.option("--json", "as_json", is_flag=True, help="Write the versioned JSON report.")
@click.option("--strict", is_flag=True, help="A warning counts as a failure.")
@click.option("--profile", default="", metavar="NAME", help="Profile of settings to hold hosts to.")
@click.pass_context
def command(
    ctx: click.Context,
    hosts: tuple[str, ...],
    inventory: Path | None,
    limit: str,
    bundle: str | None,
    as_json: bool,
    strict: bool,
    profile: str,
) -> None:
    """Examine this host, HOSTS over SSH, the hosts of an inventory, or a recorded bundle. Changes nothing.

    HOSTS are [user@]name[:port]; with --inventory they are names of hosts in it.

    Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage or input, 3 something that applies
    could not be seen.
    """
    from qwenhost.reports import exit_code, json_report, text

    if limit and inventory is None:
        raise QwenhostError("--limit needs an inventory", hint="add -i INVENTORY")
    reports = _examine(hosts, inventory, limit, bundle, profile)
    if as_json:
        click.echo(json_report.render(reports))
    else:
        text.write(reports, sys.stdout, again=_again(inventory))
    ctx.exit(exit_code(reports, strict=strict))


def _examine(
    names: tuple[str, ...], inventory: Path | None, limit: str, bundle: str | None, profile: str
) -> tuple[HostReport, ...]:
    from qwenhost.workflows import doctor, hosts

    chosen = hosts.choose(names, inventory, limit, profile)
    if bundle is not None:
        return (doctor.examine_recorded(bundle, hosts.one_or_none(chosen), profile),)
    return doctor.examine_hosts(chosen) if chosen else (doctor.examine_here(profile),)


def _again(inventory: Path | None) -> str:
    return f"qwenhost provision {shlex.quote(str(inventory)) if inventory else 'INVENTORY'}"
