"""`qwenhost ask HOST QUESTION`: one question to the model that a host serves."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from qwenhost.cli.passwords import takes_passwords
from qwenhost.records.errors import FAILED, QwenhostError


@click.command()
@click.argument("host")
@click.argument("question")
@click.option(
    "-i", "--inventory", type=click.Path(path_type=Path), required=True, help="Where the host is declared."
)
@click.option("--instance", default="", help="Which vLLM instance; left out: the first.")
@takes_passwords
def command(host: str, question: str, inventory: Path, instance: str) -> None:
    """Ask the model served on HOST a question and print its answer.

    The request is sent from the host over its loopback address; the API key stays there.
    """
    from qwenhost.expectations.declared import read_declared
    from qwenhost.workflows import hosts, served

    chosen = hosts.choose([host], inventory)[0]
    declared = read_declared(chosen.variables, host=chosen.name, where=str(inventory))
    if declared.serving is None:
        raise QwenhostError(f"{host}: nothing is served there", hint="declare qwenhost_vllm")
    try:
        answer = served.ask(chosen, declared.serving, instance, question)
    except OSError as error:
        raise QwenhostError(
            f"{host}: no answer: {error}", hint="qwenhost doctor tells why", exit_code=FAILED
        ) from error
    sys.stdout.write(f"{answer}\n")
