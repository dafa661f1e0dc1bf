"""Asks every check, in this order: applies? -> seen? -> judged. Only here does "not seen" become a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from qwenhost.checks.declare import Check, Judgement, checks
from qwenhost.facts.registry import Seen, Unseen, read
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import NO_REMEDY, Finding, Verdict, by_hand

HOST = "host"

FAILED_ITSELF = "the check itself failed"
REPORT = by_hand("Report it with what `qwenhost capture` writes: this is a fault of qwenhost.")

See = Callable[[type[Any]], Seen[Any] | Unseen]
"""Returns a fact of the host, or why it is not there."""


def examine(bundle: Bundle, want: Expectations) -> tuple[Finding, ...]:
    """Return the findings of all checks on one host, consequences marked with their cause."""
    findings = [f for check in checks().values() for f in ask(check, lambda fact: read(bundle, fact), want)]
    return tuple(_with_causes(findings))


def ask(check: Check, see: See, want: Expectations) -> Iterator[Finding]:
    """Ask one check. A check that yields nothing is unknown; so is one whose facts were not seen."""
    if not check.applies(want):
        yield _finding(check, Judgement(HOST, Verdict.SKIP, observed=check.skipped))
        return
    arguments, unseen = _arguments(check, see, want)
    if unseen is not None:
        yield _finding(check, Judgement(HOST, Verdict.UNKNOWN, observed=unseen.reason), unseen.sources[0])
        return
    judgements = _judged(check, arguments)
    for judgement in judgements or [Judgement(HOST, Verdict.UNKNOWN, observed="nothing to judge was seen")]:
        yield _finding(check, judgement)


def _judged(check: Check, arguments: dict[str, Any]) -> list[Judgement]:
    """Return a check's judgements; a check with a fault of its own takes no other's verdict with it."""
    try:
        return list(check.judge(**arguments))
    except Exception as error:
        told = f"{FAILED_ITSELF}: {type(error).__name__}: {error}"
        return [Judgement(HOST, Verdict.UNKNOWN, observed=told, remedy=REPORT)]


def _arguments(check: Check, see: See, want: Expectations) -> tuple[dict[str, Any], Unseen | None]:
    arguments: dict[str, Any] = {}
    for name, hint in _parameters(check.judge):
        if hint is Expectations:
            arguments[name] = want
            continue
        fact, optional = _optional(hint)
        answer = see(fact)
        if isinstance(answer, Unseen):
            if not optional:
                return {}, answer
            arguments[name] = None
        else:
            arguments[name] = answer.fact
    return arguments, None


def facts_of(check: Check) -> tuple[tuple[type[Any], bool], ...]:
    """Return the facts that a check takes, each with whether it can do without."""
    return tuple(_optional(hint) for _, hint in _parameters(check.judge) if hint is not Expectations)


@cache
def _parameters(judge: Callable[..., Any]) -> tuple[tuple[str, Any], ...]:
    """Return the parameters of a check with their types (resolving those costs more than most judgements)."""
    return tuple((name, hint) for name, hint in get_type_hints(judge).items() if name != "return")


def _optional(hint: Any) -> tuple[type[Any], bool]:
    """Return the fact type of a parameter, and whether the check can do without it (`Fact | None`)."""
    if get_origin(hint) in (Union, UnionType):
        facts = [part for part in get_args(hint) if part is not NoneType]
        return facts[0], True
    return hint, False


def _finding(check: Check, judgement: Judgement, source: str = "") -> Finding:
    quiet = judgement.verdict in (Verdict.PASS, Verdict.SKIP)
    return Finding(
        check=check.id,
        subject=judgement.subject,
        verdict=judgement.verdict,
        observed=judgement.observed,
        expected=judgement.expected,
        why=check.why,
        remedy=NO_REMEDY if quiet else judgement.remedy or check.remedy,
        origin=judgement.origin,
        evidence=judgement.evidence,
        cause=judgement.consequence_of,
        source=source,
    )


def _with_causes(findings: list[Finding]) -> Iterator[Finding]:
    """Mark alarms and unknowns that another failed check explains, so that a cause is told once."""
    failed = {finding.check for finding in findings if finding.verdict is Verdict.FAIL}
    for finding in findings:
        told_by = (*checks()[finding.check].consequence_of, finding.cause)
        cause = next((check for check in told_by if check in failed), "")
        alarmed = finding.verdict in (Verdict.UNKNOWN, Verdict.WARN, Verdict.FAIL)
        yield replace(finding, cause=cause if alarmed else "")
