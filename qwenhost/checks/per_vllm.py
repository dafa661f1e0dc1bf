"""Questions that are asked of each vLLM service alike: one cause ends a start, and one check tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from qwenhost.checks.declare import Judgement, skip
from qwenhost.facts.vllm import VllmUnit
from qwenhost.facts.vllm_lines import CONTAINER
from qwenhost.facts.vllm_metrics import RECORDED, Metrics
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.facts.vllm_start import LogEvent, VllmStart
from qwenhost.records.desired import Expectations, VllmInstance
from qwenhost.records.finding import Remedy, Verdict, by_hand, by_role

HOST = "host"

ROLE = "vllm_service"

LOOK = by_role(ROLE, "Run qwenhost provision: the role vllm_service starts it and tells what it says.")

NO_VLLM = "nothing is served here (qwenhost_vllm), and no log of vLLM was seen"

INSTALLED = ("vllm.installed",)

START_CAUSES = (
    "vllm.architecture",
    "vllm.context-length",
    "vllm.fp8-on-sm80",
    "vllm.free-memory",
    "vllm.kv-cache-fit",
    "vllm.mamba-batch",
    "vllm.mamba-blocks",
    "vllm.mig-device",
)
"""Each tells one kind of start that fails; a service that is down is their consequence."""


@dataclass(frozen=True)
class Run:
    """One service: declared, or known by its log. `known` is false where systemd has no such unit."""

    subject: str
    start: VllmStart | None = None
    unit: VllmUnit | None = None
    answers: bool | None = None
    metrics: Metrics | None = None
    declared: VllmInstance | None = None
    known: bool = True

    @property
    def serves(self) -> bool:
        """It answers, or its log shows that it came that far."""
        return bool(self.answers or self.metrics or (self.start and self.start.was_ready))


def each_run(runs: VllmRuns | None, want: Expectations) -> list[Run]:
    """Return the declared services, then those that only a log or a page of metrics shows."""
    seen = runs or VllmRuns()
    instances = want.serving.instances if want.serving else ()
    return [*(_declared(seen, instance) for instance in instances), *_others(seen, instances)]


def of_each(runs: VllmRuns | None, want: Expectations, judge: Callable[[Run], Judgement]) -> Iterator[Judgement]:
    """Judge each service; where there is none, the question does not arise."""
    found = each_run(runs, want)
    if not found:
        yield skip(HOST, NO_VLLM)
    yield from map(judge, found)


def _declared(seen: VllmRuns, instance: VllmInstance) -> Run:
    return Run(
        f"vllm@{instance.name}",
        start=next((start for start in seen.starts if start.instance == instance.name), None),
        unit=(seen.units or {}).get(instance.name),
        answers=seen.answers.get(instance.port),
        metrics=seen.metrics.get(instance.port),
        declared=instance,
        known=seen.units is None or instance.name in seen.units,
    )


def _others(seen: VllmRuns, instances: tuple[VllmInstance, ...]) -> Iterator[Run]:
    """Yield what is not declared; a service that systemd no longer has is history."""
    names = {instance.name for instance in instances}
    starts = [start for start in seen.starts if start.instance not in names]
    page = seen.metrics.get(RECORDED)
    for start in starts:
        gone = bool(start.instance) and seen.units is not None and start.instance not in seen.units
        if not gone:
            unit = (seen.units or {}).get(start.instance)
            yield Run(_subject(start), start, unit, metrics=page if len(starts) == 1 else None)
    if page and len(starts) != 1:
        yield Run("vllm", metrics=page)


def _subject(start: VllmStart) -> str:
    if start.instance.startswith(CONTAINER):
        return start.instance
    return f"vllm@{start.instance}" if start.instance else "vllm"


def start_causes(
    check: str,
    runs: VllmRuns | None,
    want: Expectations,
    remedy: str,
    shown: Callable[[Run], str] = lambda _: "it started",
) -> Iterator[Judgement]:
    """Judge one kind of failed start: fail where it ended a start, pass where a service came past it.

    `shown` tells what is seen of a service that passes.
    """

    def judge(run: Run) -> Judgement:
        cause = run.start.told(check) if run.start else None
        if run.start is None or cause is None:
            return came_past(run) or Judgement(run.subject, Verdict.PASS, shown(run))
        observed = f"{cause.observed}{' while it served' if run.start.was_ready else ''}"
        act = step(remedy, want)
        return Judgement(run.subject, Verdict.FAIL, observed, cause.expected, cause.line, remedy=act)

    return of_each(runs, want, judge)


def blamed(check: str, runs: VllmRuns | None) -> Iterator[tuple[str, LogEvent]]:
    """Yield service and line where a service's log blames what the check of another subject tells."""
    for start in runs.starts if runs else ():
        cause = start.told(check)
        if cause:
            yield _subject(start), cause


def came_past(run: Run) -> Judgement | None:
    """Return why nothing can be said of a start, None for a service that serves or served."""
    if run.serves:
        return None
    if run.start and run.start.state == "failed":
        cause = run.start.cause
        return skip(run.subject, f"told by {cause.wording.check if cause else 'vllm.start'}")
    if run.start:
        return skip(run.subject, "stopped while it started" if run.start.state == "stopped" else "still starts")
    if not run.known or (run.unit and run.unit.state == "inactive"):
        return skip(run.subject, "not started yet")
    return Judgement(run.subject, Verdict.UNKNOWN, "neither its log nor its answers were seen", remedy=LOOK)


def step(text: str, want: Expectations) -> Remedy:
    """Return what to do: where the service is declared, the role does it after a change of the inventory."""
    if want.serving is None:
        return by_hand(text)
    return declared(text)


def declared(text: str) -> Remedy:
    """Return what to do where the service is declared."""
    return by_role(ROLE, f"{text} Change it in qwenhost_vllm, then run qwenhost provision.")
