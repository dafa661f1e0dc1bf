"""Where reports go: text for people or one form for programs on standard output, others into files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import HostReport

STDOUT = "-"

Command = Callable[..., Any]


@dataclass(frozen=True)
class Outputs:
    """Which forms are wanted, and where: a path, "-" for standard output, None for not at all."""

    json: str | None = None
    junit: str | None = None
    html: str | None = None
    prometheus: str | None = None
    strict: bool = False
    tool: str = "qwenhost doctor"
    """Named in JUnit."""

    def __post_init__(self) -> None:
        if len(self.on_stdout) > 1:
            named = " and ".join(f"--{name}" for name in self.on_stdout)
            raise QwenhostError(f"{named} both want standard output", hint="give one of them a file")

    @property
    def on_stdout(self) -> tuple[str, ...]:
        """Names of the forms that go to standard output; with none, the text for people does."""
        return tuple(name for name, path in self._wanted() if path == STDOUT)

    def _wanted(self) -> tuple[tuple[str, str | None], ...]:
        forms = (("json", self.json), ("junit", self.junit), ("html", self.html), ("prometheus", self.prometheus))
        return tuple((name, path) for name, path in forms if path is not None)

    def write(self, reports: Sequence[HostReport], again: str) -> None:
        """Write every form, or text; `again` is the command that would run the roles. Raises QwenhostError."""
        self.write_forms(reports, again)
        if not self.on_stdout:
            from qwenhost.reports import text

            text.write(reports, sys.stdout, again=again)

    def write_forms(self, reports: Sequence[HostReport], again: str = "") -> None:
        """Write the forms for programs. Raises QwenhostError."""
        for name, path in self._wanted():
            put(str(path), self._rendered(name, reports, again))

    def _rendered(self, form: str, reports: Sequence[HostReport], again: str) -> str:
        if form == "json":
            from qwenhost.reports import json_report

            return f"{json_report.render(reports)}\n"
        if form == "junit":
            from qwenhost.reports import junit

            return junit.render(reports, strict=self.strict, tool=self.tool)
        if form == "html":
            from qwenhost.reports import page

            return page.render(reports, again=again)
        from qwenhost.reports import prometheus

        return prometheus.render(reports)


def output_options(command: Command) -> Command:
    """Add the options; the command takes them as as_json, junit, html and prometheus."""
    told = "to PATH, - for standard output."
    options = (
        click.option("--json", "as_json", is_flag=True, help="Write versioned JSON to standard output."),
        click.option("--junit", metavar="PATH", help=f"Write JUnit XML for CI {told}"),
        click.option("--html", metavar="PATH", help=f"Write one self-contained page {told}"),
        click.option("--prometheus", metavar="PATH", help=f"Write metrics for the textfile collector {told}"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def put(path: str, content: str) -> None:
    """Write to a file, or to standard output for "-". Raises QwenhostError."""
    if path == STDOUT:
        click.echo(content, nl=False)
        return
    from qwenhost.reports.files import write_whole

    try:
        write_whole(Path(path), content)
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}", hint="choose another file") from error
