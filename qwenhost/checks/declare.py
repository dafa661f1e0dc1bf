"""How a check is declared: an id, the facts it needs (its parameter types), a remedy, a reason (its docstring)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from qwenhost.records.desired import Expectations
from qwenhost.records.finding import NO_REMEDY, Remedy, Verdict


@dataclass(frozen=True)
class Judgement:
    """One verdict on one subject, as a check yields it; empty `remedy` means the check's own."""

    subject: str
    verdict: Verdict
    observed: str = ""
    expected: str = ""
    evidence: str = ""
    origin: str = ""
    remedy: Remedy | None = None
    consequence_of: str = ""
    """A check whose failure tells the story of this subject; the check's own are those of all its subjects."""


Judge = Callable[..., Iterator[Judgement]]


def always(_: Expectations) -> bool:
    """Applies to every host."""
    return True


@dataclass(frozen=True)
class Check:
    """A declared check. `consequence_of`: checks whose failure already tells this one's story."""

    id: str
    judge: Judge
    remedy: Remedy
    applies: Callable[[Expectations], bool]
    skipped: str
    consequence_of: tuple[str, ...]

    @property
    def why(self) -> str:
        """Why an operator cares; the whole docstring of the check."""
        return inspect.getdoc(self.judge) or ""


_CHECKS: dict[str, Check] = {}


def check(
    id: str,
    *,
    remedy: Remedy = NO_REMEDY,
    applies: Callable[[Expectations], bool] = always,
    skipped: str = "nothing declared",
    consequence_of: tuple[str, ...] = (),
) -> Callable[[Judge], Judge]:
    """Declare a check. `skipped` says why it does not apply where `applies` is false."""

    def register(judge: Judge) -> Judge:
        if id in _CHECKS:
            raise ValueError(f"check {id} is declared twice")
        _CHECKS[id] = Check(id, judge, remedy, applies, skipped, consequence_of)
        return judge

    return register


@cache
def checks() -> dict[str, Check]:
    """Return all checks by id, found by importing every module of this package."""
    package = importlib.import_module("qwenhost.checks")
    for module in pkgutil.walk_packages(package.__path__, "qwenhost.checks."):
        importlib.import_module(module.name)
    return dict(sorted(_CHECKS.items()))


def equal(
    subject: str,
    observed: Any,
    expected: Any,
    *,
    unit: str = "",
    otherwise: Verdict = Verdict.FAIL,
    evidence: str = "",
    origin: str = "",
) -> Judgement:
    """Judge equality; an `observed` of None was not seen, and is unknown."""
    return judged(
        subject,
        None if observed is None else observed == expected,
        observed=_with_unit(observed, unit),
        expected=_with_unit(expected, unit),
        otherwise=otherwise,
        evidence=evidence,
        origin=origin,
    )


def judged(
    subject: str,
    holds: bool | None,
    *,
    observed: str = "",
    expected: str = "",
    otherwise: Verdict = Verdict.FAIL,
    evidence: str = "",
    origin: str = "",
    remedy: Remedy | None = None,
) -> Judgement:
    """Judge a condition: None is unknown, true passes, false is `otherwise`."""
    verdict = Verdict.UNKNOWN if holds is None else Verdict.PASS if holds else otherwise
    return Judgement(subject, verdict, observed, expected, evidence, origin, remedy)


def skip(subject: str, why: str) -> Judgement:
    """The question does not arise for this subject, for this reason."""
    return Judgement(subject, Verdict.SKIP, observed=why)


def note(subject: str, observed: str, *, expected: str = "", evidence: str = "") -> Judgement:
    """Worth knowing, nothing to do."""
    return Judgement(subject, Verdict.NOTE, observed, expected, evidence)


def _with_unit(value: Any, unit: str) -> str:
    if value is None:
        return "not seen"
    return f"{value} {unit}".rstrip()
