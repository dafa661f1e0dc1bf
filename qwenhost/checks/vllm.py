"""The served model: installed, configured, running, answering, as declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qwenhost.checks.declare import Judgement, check, equal, judged
from qwenhost.checks.per_vllm import START_CAUSES
from qwenhost.facts.vllm import VllmConfigs, VllmEnvironments, VllmHealth, VllmUnit, VllmUnits
from qwenhost.records.desired import Expectations, Serving, VllmInstance
from qwenhost.records.finding import Verdict, by_role

NOT_SERVED = "nothing is served here (qwenhost_vllm)"
SERVED = by_role("vllm_service", "Run qwenhost provision: the role vllm_service sets it right.")

HTTP_OK = 200


def serves(want: Expectations) -> bool:
    """Tell whether anything is declared to be served."""
    return want.serving is not None


def _instances(want: Expectations) -> tuple[VllmInstance, ...]:
    return want.serving.instances if want.serving else ()


@check("vllm.installed", remedy=SERVED, applies=serves, skipped=NOT_SERVED)
def installed(found: VllmEnvironments, want: Expectations) -> Iterator[Judgement]:
    """The declared vLLM version is installed completely, and is the one in use."""
    if want.serving:
        wanted = f"{want.serving.package}=={want.serving.version}"
        current = found.requirements.get(found.current, "none")
        yield equal("host", current, wanted, origin=want.serving.origin)
        if found.unproven:
            expected = "a switch that ended, forwards or back"
            yield Judgement("switch", Verdict.FAIL, f"{found.unproven}, and not proven", expected)


@check("vllm.config", remedy=SERVED, applies=serves, skipped=NOT_SERVED, consequence_of=("vllm.installed",))
def config(found: VllmConfigs, want: Expectations) -> Iterator[Judgement]:
    """Each instance's options are the declared ones, and no other instance is configured.

    A service that still runs with yesterday's context length looks healthy and is not what was asked for.
    """
    serving = want.serving
    for instance in _instances(want):
        options = found.options.get(instance.name)
        yield _options(instance, serving, options) if serving else Judgement(instance.name, Verdict.UNKNOWN)
    declared = {instance.name for instance in _instances(want)}
    for name in sorted(set(found.options) - declared):
        yield Judgement(name, Verdict.FAIL, "configured", "no such instance is declared")


def _options(instance: VllmInstance, serving: Serving, found: Mapping[str, Any] | None) -> Judgement:
    if found is None:
        return Judgement(instance.name, Verdict.FAIL, "not configured", "configured", origin=serving.origin)
    wanted = instance.options
    differing = sorted(key for key in {*wanted, *found} if wanted.get(key) != found.get(key))
    shown = ", ".join(f"{key} {found.get(key, 'not set')}" for key in differing)
    asked = ", ".join(f"{key} {wanted.get(key, 'not set')}" for key in differing)
    return judged(instance.name, not differing, observed=shown, expected=asked, origin=serving.origin)


@check(
    "vllm.service",
    remedy=SERVED,
    applies=serves,
    skipped=NOT_SERVED,
    consequence_of=("vllm.installed", "vllm.model-files", *START_CAUSES, "vllm.start"),
)
def service(found: VllmUnits, want: Expectations) -> Iterator[Judgement]:
    """Each declared instance runs as a systemd service that nothing keeps restarting."""
    for instance in _instances(want):
        yield _unit(instance.name, found.units.get(instance.name))


def _unit(name: str, unit: VllmUnit | None) -> Judgement:
    subject = f"vllm@{name}"
    if unit is None:
        return Judgement(subject, Verdict.FAIL, "not loaded", "active")
    restarted = f", {unit.restarts} restarts" if unit.restarts else ""
    failed = f" ({unit.result})" if unit.result not in ("", "success") else ""
    if unit.state == "active" and unit.restarts:
        return Judgement(subject, Verdict.NOTE, f"active{restarted}", "active, no restarts")
    return judged(subject, unit.state == "active", observed=unit.state + failed + restarted, expected="active")


@check(
    "vllm.ready",
    remedy=SERVED,
    applies=serves,
    skipped=NOT_SERVED,
    consequence_of=("vllm.installed", "vllm.model-files", *START_CAUSES, "vllm.start", "vllm.service"),
)
def ready(found: VllmHealth, want: Expectations) -> Iterator[Judgement]:
    """Each declared instance answers its health question.

    systemd calls a service active while it still loads weights, and also when its engine has died.
    """
    for instance in _instances(want):
        answer = found.answers.get(instance.port)
        status, reason = answer or (0, "not asked")
        yield judged(
            f"vllm@{instance.name} port {instance.port}",
            None if answer is None else status == HTTP_OK,
            observed=f"HTTP {status}" if status else reason,
            expected=f"HTTP {HTTP_OK}",
        )
