"""`qwenhost rollback INVENTORY`: what was there before the last run comes back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwenhost.cli.passwords import takes_passwords
from qwenhost.records.errors import FAILED, QwenhostError

if TYPE_CHECKING:
    from qwenhost.workflows.rollback import Undone


@click.command()
@click.argument("inventory", type=click.Path(path_type=Path))
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts (an Ansible pattern).")
@click.option("--to", default="", metavar="RUN", help="Undo this run and all later ones; the last one by default.")
@click.option("--list", "listing", is_flag=True, help="List the runs that can be undone; change nothing.")
@click.option("--check", is_flag=True, help="Say what would change; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before changing hosts.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as JSON on standard output.")
@takes_passwords
def command(inventory: Path, limit: str, to: str, listing: bool, check: bool, yes: bool, as_json: bool) -> None:
    """Restore the configuration, live settings and MIG layout that a run found on the hosts of INVENTORY.

    Each run keeps them on the host before it changes anything. Installed vLLM environments and models stay.
    """
    from qwenhost.workflows.inventory import load_hosts, refuse_one_host_twice
    from qwenhost.workflows.rollback import list_runs, roll_back

    hosts = load_hosts(inventory, limit)
    refuse_one_host_twice(hosts)
    if not (listing or check or yes):
        _agree([host.name for host in hosts])
    told = list_runs(hosts) if listing else roll_back(hosts, to, check)
    if as_json:
        click.echo(json.dumps({"schema": 1, "hosts": [asdict(one) for one in told]}, indent=1))
    else:
        for line in _lines(told, listing):
            click.echo(line)
    sys.exit(FAILED if any(one.error for one in told) else 0)


def _agree(names: list[str]) -> None:
    if not sys.stdin.isatty():
        raise QwenhostError("nobody to ask on this terminal", hint="add --yes, or --check to preview")
    click.confirm(f"Roll back {', '.join(names)}?", abort=True, err=True)


def _lines(told: tuple[Undone, ...], listing: bool) -> Iterator[str]:
    for one in told:
        if one.error:
            yield f"{one.host}: {one.error}" + (f" ({one.hint})" if one.hint else "")
        elif listing:
            yield f"{one.host}: {len(one.runs)} runs"
            yield from (f"  {run.name}  {run.at}  {run.controller}" for run in one.runs)
        else:
            yield f"{one.host}: " + (f"{len(one.difference)} differences" if one.difference else "nothing to undo")
            yield from (f"  {line}" for line in one.difference)
