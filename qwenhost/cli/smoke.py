"""`qwenhost smoke`: ask a served model questions and check the answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwenhost.cli.passwords import takes_passwords
from qwenhost.records.errors import USAGE, QwenhostError
from qwenhost.records.finding import Finding, HostReport, Verdict

if TYPE_CHECKING:
    from qwenhost.expectations.smoke_tables import Expected
    from qwenhost.records.promise import Promise
    from qwenhost.workflows.smoke.service import Service


@click.command()
@click.argument("targets", nargs=-1, metavar="URL | [HOST]...")
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Inventory that declares the HOSTs.")
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts of the inventory.")
@click.option("--full", is_flag=True, help="Also ask what loads the service: context, burst, features, bad input.")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="File that holds the API key (URL only).")
@click.option("--model", default="", help="Served name (URL only); left out: whatever is served first.")
@click.option("--plan", type=click.Path(path_type=Path), help="`qwenhost plan --json` to hold it to (URL only).")
@click.option("--concurrency", type=click.IntRange(min=1), help="Requests of the burst (URL only).")
@click.option("--question", default="", help="Ask this instead of the known questions.")
@click.option("--expect", default="", help="Regular expression for the answer to --question.")
@click.option("--json", "as_json", is_flag=True, help="Write versioned JSON to standard output.")
@click.option("--junit", metavar="PATH", help="Write JUnit XML for CI to PATH, - for standard output.")
@takes_passwords
def command(
    targets: tuple[str, ...],
    inventory: Path | None,
    limit: str,
    full: bool,
    api_key_file: Path | None,
    model: str,
    plan: Path | None,
    concurrency: int | None,
    question: str,
    expect: str,
    as_json: bool,
    junit: str | None,
) -> int:
    """Ask the model served at URL, or on hosts of an inventory, questions and check the answers.

    Health, served name, a right answer, streaming, thinking, refusal of wrong keys, metrics; with --full also the
    longest context, a burst of requests, tool calls, structured output, prefix cache and bad input. Requests to
    hosts of an inventory are sent from the host itself; its API key stays there.

    Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage, 3 something could not be seen.
    """
    from qwenhost.reports import exit_code
    from qwenhost.workflows import hosts, served

    if as_json and junit == "-":
        raise QwenhostError("--json and --junit both want standard output", exit_code=USAGE)
    answers = _answers(question, expect)
    if inventory is not None:
        reports = served.smoke_hosts(hosts.choose(targets, inventory, limit), answers, full)
    elif len(targets) == 1:
        key = _read_key(api_key_file) if api_key_file else ""
        service = _service(targets[0], key, model, _promise(plan, concurrency), answers)
        reports = (_at_url(targets[0], service, full),)
    else:
        raise QwenhostError(
            "one URL, or -i INVENTORY", hint="such as qwenhost smoke http://127.0.0.1:8000", exit_code=USAGE
        )
    _write(reports, as_json, junit)
    return exit_code(reports)


def _answers(question: str, expect: str) -> tuple[Expected, ...] | None:
    """Return the user's own question; None for the known ones."""
    from qwenhost.expectations.smoke_tables import expected

    if bool(question) != bool(expect):
        raise QwenhostError("--question and --expect go together", exit_code=USAGE)
    return (expected(question, expect),) if question else None


def _promise(plan: Path | None, concurrency: int | None) -> Promise:
    from qwenhost.records.promise import NO_PROMISE
    from qwenhost.workflows.promised import promise_in

    promise = promise_in(plan) if plan else NO_PROMISE
    return replace(promise, sequences=concurrency) if concurrency else promise


def _service(url: str, key: str, model: str, promise: Promise, answers: tuple[Expected, ...] | None) -> Service:
    from qwenhost.expectations.smoke_tables import known_answers
    from qwenhost.workflows.requests import UrlFetch
    from qwenhost.workflows.smoke.service import Service

    return Service(UrlFetch(url), key, model, answers or known_answers(), promise)


def _at_url(url: str, service: Service, full: bool) -> HostReport:
    from qwenhost.workflows.smoke.run import smoke

    return HostReport(url, "", smoke(service, url, full=full))


def _write(reports: tuple[HostReport, ...], as_json: bool, junit: str | None) -> None:
    from qwenhost.cli.outputs import Outputs

    outputs = Outputs("-" if as_json else None, junit, tool="qwenhost smoke")
    outputs.write_forms(reports)
    if not outputs.on_stdout:
        click.echo("\n".join(map(_rows, reports)))


def _read_key(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise QwenhostError(f"cannot read the API key: {path}: {error}") from error
    if not key or not key.isascii() or not key.isprintable():
        raise QwenhostError(f"{path} holds no API key", hint="one line of printable ASCII is expected")
    return key


def _rows(report: HostReport) -> str:
    head = [f"{report.host}: {report.error}"] if report.error else [report.host]
    notes = [f"{'':8}{text}" for text in report.notes.values()]
    return "\n".join([*head, *notes, *(line for finding in report.findings for line in _row(finding))])


def _row(finding: Finding) -> list[str]:
    """Answers are the point of this command, so passed checks are shown, too."""
    row = [f"{finding.verdict:<8}{finding.check:<26}{finding.observed}"]
    if finding.verdict not in (Verdict.FAIL, Verdict.WARN):
        return row
    told = {"expected: ": finding.expected, "answered: ": finding.evidence, "": finding.remedy.text}
    return [*row, *(f"{'':8}{name}{text}" for name, text in told.items() if text)]
