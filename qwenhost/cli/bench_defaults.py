"""What an instance's own options gain over vLLM's defaults: `qwenhost bench --compare-defaults`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenhost.records.errors import FAILED, USAGE, QwenhostError

if TYPE_CHECKING:
    from qwenhost.records.host import Host
    from qwenhost.workflows.defaults_trial import Instance


def compare(
    hosts: Sequence[Host],
    load: Mapping[str, Any],
    keep: Collection[str],
    yes: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Measure every instance of the hosts, one after the other, and return the exit code."""
    from qwenhost.reports.bench_text import trial_lines
    from qwenhost.workflows import bench, defaults_trial

    instances = defaults_trial.on_hosts(hosts)
    _agree(instances, yes)
    trials = []
    with _ends_in_order():
        for one in instances:
            measured = replace(one, target=replace(one.target, load=replace(one.target.load, **load)))
            trials.append(defaults_trial.trial(measured, keep, _say))
            if not as_json:
                click.echo("\n".join(trial_lines(trials[-1])))
    told = defaults_trial.to_json(trials)
    if output:
        bench.write(output, told)
    if as_json:
        click.echo(told)
    return FAILED if any(gain.failed for one in trials for gain in one.gains) else 0


def _say(line: str) -> None:
    click.echo(line, err=True)


def _agree(instances: Sequence[Instance], yes: bool) -> None:
    """Say what is stopped, and ask."""
    names = ", ".join(one.target.load.service for one in instances)
    if not names:
        raise QwenhostError("nothing is served there", hint="declare qwenhost_vllm", exit_code=USAGE)
    _say(f"{names}: stopped twice, and loaded in between; requests of others fail or wait meanwhile")
    if yes:
        return
    if not sys.stdin.isatty():
        raise QwenhostError("nobody to ask on this terminal", hint="add --yes", exit_code=USAGE)
    click.confirm("Go on?", abort=True, err=True)


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Have an end from outside pass through what has to be put back."""
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)
