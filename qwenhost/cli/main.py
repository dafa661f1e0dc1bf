"""Entry point: finds the command, and turns an error into one line, a hint and an exit code."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from qwenhost import __version__
from qwenhost.records.errors import FAILED, QwenhostError

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

DEBUG = "--debug"

HERE = Path(__file__).parent

FIRST_LINE = re.compile(r'"""`qwenhost [^`]+`: (?P<summary>.+?)\.?"""')


class Commands(click.Group):
    """Imports a command's module only when it is asked for, so that each command pays for itself alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all modules of this package that are commands."""
        package = importlib.import_module("qwenhost.cli")
        names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
        return [name.replace("_", "-") for name in names if _summary(name)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each command without importing any, so that help is there at once."""
        rows = [(name, _summary(name.replace("-", "_"))) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of the module of that name."""
        name = f"qwenhost.cli.{cmd_name.replace('-', '_')}"
        if "." in cmd_name or importlib.util.find_spec(name) is None:
            return None
        module = importlib.import_module(name)
        found = getattr(module, "command", None) or getattr(module, "group", None)
        return found if isinstance(found, click.Command) else None


def _summary(name: str) -> str:
    """Return what the first line of a command's module says of it; empty for a module that is no command."""
    path = HERE / f"{name}.py"
    with path.open(encoding="utf-8") as lines:
        found = FIRST_LINE.match(lines.readline())
    return found["summary"] if found else ""


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="qwenhost")
@click.option(DEBUG, is_flag=True, expose_value=False, help="Show the traceback of an error (any command).")
def cli() -> None:
    """Take bare-metal A100 hosts from racked to serving Qwen3.5 with vLLM, and keep them there.

    Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage or input, 3 something that applies
    could not be seen.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    code = run([argument for argument in given if argument != DEBUG], debug=DEBUG in given)
    if code == INTERRUPTED:
        os._exit(code)  # not waiting for threads that still wait for hosts
    sys.exit(code)


def run(arguments: list[str], *, debug: bool) -> int:
    """Run one command; return its exit code."""
    try:
        result = cli.main(args=arguments, prog_name="qwenhost", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.Abort:
        return _end("interrupted", code=INTERRUPTED)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on; stay silent at exit
        return FAILED
    except QwenhostError as error:
        return _end(f"error: {error}", error.hint, error.exit_code, debug=debug)
    except Exception as error:
        hint = "" if debug else f"run it again with {DEBUG} to see where"
        return _end(f"internal error: {type(error).__name__}: {error}", hint, FAILED, debug=debug)


def _end(message: str, hint: str = "", code: int = FAILED, *, debug: bool = False) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    click.echo(f"qwenhost: {message}", err=True)
    if hint:
        click.echo(f"  hint: {hint}", err=True)
    return code
