"""Options by which a command gets passwords: prompts and files. None stays anywhere but in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from qwenhost.records.errors import QwenhostError
from qwenhost.workflows import passwords

Command = Callable[..., Any]


def _ask(variable: str, what: str, context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    if not sys.stdin.isatty():
        hint = f"name a file or a program: {variable}, or a vault in the inventory"
        raise QwenhostError(f"nobody to ask for the {what} on this terminal", hint=hint)
    passwords.keep_in_memory(variable, click.prompt(what.capitalize(), hide_input=True, err=True))


def _name(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    if path is not None:
        passwords.name_file(passwords.VAULT, path)


def takes_passwords(command: Command) -> Command:
    """Give a command that reads an inventory the options; they take effect before it begins."""
    ask_vault = partial(_ask, passwords.VAULT, "vault password")
    ask_become = partial(_ask, passwords.BECOME, "become password")
    options = (
        click.option(
            "--ask-vault-pass", is_flag=True, help="Ask for the vault's password.", callback=ask_vault, **ONCE
        ),
        click.option("--vault-password-file", type=PATH, metavar="FILE", help=FILE, callback=_name, **ONCE),
        click.option(
            "-K", "--ask-become-pass", is_flag=True, help="Ask for sudo's password.", callback=ask_become, **ONCE
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


ONCE: dict[str, Any] = {"expose_value": False, "is_eager": True}
PATH = click.Path(path_type=Path)
FILE = "File with the vault's password, or a program that prints it."
