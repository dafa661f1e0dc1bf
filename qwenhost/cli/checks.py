"""`qwenhost checks`: every check with its question."""

from __future__ import annotations

import json

import click

from qwenhost.records.errors import QwenhostError

SCHEMA = 1


@click.command()
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Write the list as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Write the page docs/checks.md.")
def command(words: tuple[str, ...], as_json: bool, as_markdown: bool) -> None:
    """List all checks, or those whose id or reason contains all WORDS."""
    from qwenhost.checks.declare import checks

    if as_json and as_markdown:
        raise QwenhostError("--json and --markdown both want standard output", hint="leave one of them out")
    shown = [check for check in checks().values() if _matches(f"{check.id} {check.why}", words)]
    if as_markdown:
        from qwenhost.reports.explanations import markdown
        from qwenhost.workflows.explain import explained

        click.echo(markdown(explained(check) for check in shown), nl=False)
    elif as_json:
        told = [
            {
                "id": check.id,
                "why": check.why,
                "remedy": check.remedy.text,
                "told_under": list(check.consequence_of),
            }
            for check in shown
        ]
        click.echo(json.dumps({"schema": SCHEMA, "checks": told}, indent=1))
    else:
        width = max((len(check.id) for check in shown), default=0)
        for check in shown:
            click.echo(f"{check.id.ljust(width)}  {check.why.partition(chr(10))[0]}")


def _matches(text: str, words: tuple[str, ...]) -> bool:
    return all(word.lower() in text.lower() for word in words)
