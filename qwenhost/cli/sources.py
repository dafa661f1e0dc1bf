"""`qwenhost sources`: everything that would be read on a host."""

from __future__ import annotations

import shlex

import click

from qwenhost.records.source import Source


@click.command()
def command() -> None:
    """List everything that doctor reads on a host; nothing else is run there.

    The health page of each declared vLLM instance comes on top.
    """
    from qwenhost.workflows.asked import standing_sources

    width = max(len(source.name) for source in standing_sources())
    for source in standing_sources():
        click.echo(f"{source.name.ljust(width)}  {_what(source)}")


def _what(source: Source) -> str:
    if source.kind == "command":
        return f"run   {shlex.join(source.argv)}"
    if source.kind == "http":
        return f"GET   {source.url}"
    if source.kind == "nvml":
        return "NVML  queries of the driver's library, no setters"
    return f"read  {' '.join(source.paths)}"
