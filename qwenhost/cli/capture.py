"""`qwenhost capture`: a bundle to keep or to send to somebody."""

from __future__ import annotations

from pathlib import Path

import click

from qwenhost.cli.passwords import takes_passwords
from qwenhost.records.errors import QwenhostError


@click.command()
@click.argument("host", required=False)
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Ansible inventory that HOST is in.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; left out: standard output.")
@click.option("--identities", is_flag=True, help="Keep serials, UUIDs, host names and addresses.")
@takes_passwords
def command(host: str | None, inventory: Path | None, output: Path | None, identities: bool) -> None:
    """Write everything that doctor would read on this host or on HOST; `doctor --bundle` reads it.

    Serials, UUIDs, host names and addresses are replaced, the same by the same. Changes nothing.
    """
    from qwenhost.workflows import hosts
    from qwenhost.workflows.capture import capture

    if inventory is not None and host is None:
        raise QwenhostError("which host of the inventory?", hint="add its name")
    chosen = hosts.one_or_none(hosts.choose([host] if host else [], inventory))
    bundle = capture(chosen, scrub=not identities)
    if output is None:
        click.echo(bundle.to_json())
        return
    _write(output, bundle.to_json())
    answered = sum(capture.status == "ok" for capture in bundle.captures)
    click.echo(f"{output}: {answered} of {len(bundle.captures)} sources answered", err=True)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise QwenhostError(f"{output}: {error.strerror}", hint="choose another file with -o") from error
