"""The entry point: commands found by name, errors as one line, exit codes, a fast start."""

from __future__ import annotations

import ast
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from qwenhost import __version__
from qwenhost.cli import main as entry
from qwenhost.records.errors import QwenhostError

HEAVY = ("ansible", "fabric", "paramiko", "rich", "jinja2")
ROOT = Path(__file__).resolve().parents[2]


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    code = "from qwenhost.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT)


def test_version() -> None:
    run = start("--version")
    assert (run.returncode, run.stdout) == (0, f"qwenhost, version {__version__}\n")


def test_every_command_has_help() -> None:
    context = click.Context(entry.cli)
    names = entry.cli.list_commands(context)
    modules = [module.name for module in pkgutil.iter_modules([str(ROOT / "qwenhost" / "cli")])]
    assert names == [name.replace("_", "-") for name in modules if entry.cli.get_command(context, name)]
    assert all(entry.cli.get_command(context, name).get_short_help_str() for name in names)


def test_help_lists_the_commands_and_imports_none() -> None:
    code = (
        "import sys\nfrom qwenhost.cli.main import run\nrun(['--help'], debug=False)\n"
        "print([name for name in sys.modules if name.startswith('qwenhost.')], file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "\n  doctor " in run.stdout
    assert set(ast.literal_eval(run.stderr)) == {
        *("qwenhost.cli", "qwenhost.cli.main", "qwenhost.records", "qwenhost.records.errors")
    }


@pytest.mark.parametrize("arguments", [["nope"], ["doctor", "--nope"], ["explain"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    run = start(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert "Error: " in run.stderr


def test_a_wrong_path_of_a_command_is_no_module() -> None:
    assert entry.cli.get_command(click.Context(entry.cli), "main.cli") is None


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (QwenhostError("bad x", hint="do y"), 2, "qwenhost: error: bad x\n  hint: do y\n"),
        (QwenhostError("not seen", exit_code=3), 3, "qwenhost: error: not seen\n"),
        (KeyboardInterrupt(), 130, "qwenhost: interrupted\n"),
        (
            KeyError("x"),
            1,
            "qwenhost: internal error: KeyError: 'x'\n  hint: run it again with --debug to see where\n",
        ),
    ],
)
def test_errors_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    told: str,
) -> None:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(entry.Commands, "get_command", lambda self, ctx, name: failing)
    assert entry.run(["failing"], debug=False) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err.lstrip("\n")) == ("", told)


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def failing() -> None:
        raise QwenhostError("bad x")

    monkeypatch.setattr(entry.Commands, "get_command", lambda self, ctx, name: failing)
    assert entry.run(["failing"], debug=True) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--version"], ["doctor", "--json"], ["doctor"], ["checks"], ["sources"]])
def test_a_start_imports_only_what_it_needs(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom qwenhost.cli.main import run\n"
        f"run({arguments!r}, debug=False)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stderr.splitlines()[-1] == "[]"


def test_an_interrupt_ends_at_once_though_a_host_is_silent() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        # A background job ignores interrupts, and its children inherit that.
        heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        code = f"{heard}; from qwenhost.cli.main import main; main()"
        command = [sys.executable, "-c", code, "doctor", f"root@127.0.0.1:{silent.getsockname()[1]}"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        silent.settimeout(60)
        with silent.accept()[0]:
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, messages = process.communicate(timeout=60)
            assert time.monotonic() - started < 8  # giving up on the host takes ten seconds
    assert (process.returncode, messages.strip()) == (130, "qwenhost: interrupted")


def test_a_reader_that_goes_away_is_no_error() -> None:
    shell = f"{sys.executable} -c 'from qwenhost.cli.main import main; main()' sources | head -n 1"
    run = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, cwd=ROOT)
    assert run.stderr == ""
