"""`qwenhost checks`: every check with its question."""

from __future__ import annotations

import click


@click.command()
@click.argument("words", nargs=-1)
def command(words: tuple[str, ...]) -> None:
    """List all checks, or those whose id or reason contains all WORDS."""
    from qwenhost.checks.declare import checks

    shown = [check for check in checks().values() if _matches(f"{check.id} {check.why}", words)]
    width = max((len(check.id) for check in shown), default=0)
    for check in shown:
        click.echo(f"{check.id.ljust(width)}  {check.why.splitlines()[0] if check.why else ''}")


def _matches(text: str, words: tuple[str, ...]) -> bool:
    return all(word.lower() in text.lower() for word in words)
