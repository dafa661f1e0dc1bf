"""Active tests of a host's GPUs, run only when asked for, and never while a program uses a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from qwenhost.facts.gpu_processes import GpuProcesses
from qwenhost.facts.trials import TRIALS, refusal
from qwenhost.records.bundle import Bundle
from qwenhost.records.source import Source
from qwenhost.workflows.observed import fact_of

Run = Callable[[Sequence[Source]], Bundle]
"""Runs trials on the host that the bundle is from. Raises HostUnreachable."""


def tried(bundle: Bundle, run: Run) -> Bundle:
    """Return the bundle with the answers of all trials, or with why they were not run."""
    why = _in_the_way(bundle)
    answers = tuple(refusal(trial, why) for trial in TRIALS) if why else run(TRIALS).captures
    return replace(bundle, captures=(*bundle.captures, *answers))


def were_tried(bundle: Bundle) -> bool:
    """Tell whether a bundle has answers of trials."""
    return any(bundle.of(trial.name) for trial in TRIALS)


def _in_the_way(bundle: Bundle) -> str:
    """Return why a trial would disturb somebody, or could; empty when all GPUs are free."""
    users = fact_of(bundle, GpuProcesses)
    if users is None or not users.gpus or any(gpu.computing is None for gpu in users.gpus):
        return "it was not seen whether a program uses the GPUs"
    busy = [process for gpu in users.gpus for process in gpu.computing or ()]
    named = sorted({f"{process.name or 'a program'} (pid {process.pid})" for process in busy})
    return f"in use by {', '.join(named)}" if named else ""
