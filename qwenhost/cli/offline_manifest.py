"""`qwenhost offline-manifest INVENTORY`: every file that a provision would fetch."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("inventory", type=click.Path(path_type=Path))
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts (an Ansible pattern).")
@click.option("--distribution", default="", metavar="NAME", help="What the hosts run, such as ubuntu-24.04.")
@click.option("--json", "as_json", is_flag=True, help="Write the list as JSON.")
def command(inventory: Path, limit: str, distribution: str, as_json: bool) -> None:
    """List the driver packages, wheels and model files that the hosts of INVENTORY fetch, with checksums.

    Only indexes are read, and no host is contacted: the list is for a mirror that is filled beforehand.
    Checksums are told where an index or a list of sums has them.
    """
    from qwenhost.reports import manifest as report
    from qwenhost.workflows.inventory import load_hosts
    from qwenhost.workflows.offline_manifest import manifest

    found = manifest(load_hosts(inventory, limit), distribution)
    click.echo(report.render(found) if as_json else "\n".join(report.lines(found)))
