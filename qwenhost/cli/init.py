"""`qwenhost init FOLDER`: an inventory to start from."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def command(folder: Path) -> None:
    """Write a commented starter inventory into FOLDER; files that are there are left alone.

    Edit it, then run: qwenhost doctor -i FOLDER
    """
    from qwenhost.workflows.starter import write_starter

    for path in write_starter(folder):
        click.echo(path)
    click.echo(f"Edit them, then: qwenhost doctor -i {folder}", err=True)
