"""All that is known of the vLLM services of a host: their logs, units, answers and counts, joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenhost.facts.registry import ANY, parses
from qwenhost.facts.vllm import HEALTH, UNITS, VllmUnit, health, units
from qwenhost.facts.vllm_log import JOURNAL, LOG, starts_in_file, starts_in_journal
from qwenhost.facts.vllm_metrics import METRICS, Metrics, metrics_of_port
from qwenhost.facts.vllm_start import VllmStart
from qwenhost.records.bundle import Capture

HTTP_OK = 200


@dataclass(frozen=True)
class VllmRuns:
    """`starts`: the last start of each service that a log shows, of this boot where it was asked for.

    `units`: instance -> unit, None where systemd was not seen. `answers`: port -> whether /health says yes.
    """

    starts: tuple[VllmStart, ...] = ()
    units: Mapping[str, VllmUnit] | None = None
    answers: Mapping[int, bool] = field(default_factory=dict)
    metrics: Mapping[int, Metrics] = field(default_factory=dict)

    def merge(self, other: VllmRuns) -> VllmRuns:
        """Add what another source knows."""
        return VllmRuns(
            starts=(*self.starts, *other.starts),
            units=other.units if self.units is None else self.units,
            answers={**other.answers, **self.answers},
            metrics={**other.metrics, **self.metrics},
        )


@parses(JOURNAL)
def runs_in_journal(capture: Capture) -> VllmRuns:
    """Take the starts that the journal shows."""
    return VllmRuns(starts=starts_in_journal(capture))


@parses(LOG)
def runs_in_file(capture: Capture) -> VllmRuns:
    """Take the starts that a log shows."""
    return VllmRuns(starts=starts_in_file(capture))


@parses(UNITS)
def runs_of_units(capture: Capture) -> VllmRuns:
    """Take what systemd knows of the units."""
    return VllmRuns(units=units(capture).units)


@parses(HEALTH, accepts=ANY)
def runs_by_health(capture: Capture) -> VllmRuns:
    """Take whether a service answers."""
    return VllmRuns(answers={port: status == HTTP_OK for port, (status, _) in health(capture).answers.items()})


@parses(METRICS)
def runs_by_metrics(capture: Capture) -> VllmRuns:
    """Take what a service counts."""
    return VllmRuns(metrics=metrics_of_port(capture))
