"""Over all checks and sources: what was not seen never passes, and nothing passes because it was not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qwenhost.checks.declare import Check, checks
from qwenhost.checks.engine import _optional, examine
from qwenhost.facts import registry
from qwenhost.facts.registry import Unseen, sources
from qwenhost.records.bundle import Bundle, Capture, Status
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding, Verdict

GARBLED = "%PDF-1.7 \x1b[0m ???? lorem 00 ipsum\n<<>> \t{[(\n"

BREAKAGES: dict[str, tuple[Status, str]] = {
    "missing": ("missing", ""),
    "denied": ("denied", ""),
    "timeout": ("timeout", ""),
    "failed": ("failed", "Segmentation fault\n"),
    "empty": ("ok", ""),
    "blank": ("ok", " \n\n"),
    "garbled": ("ok", GARBLED),
}

SOURCES = [source.name for source in sources()]


def broken(bundle: Bundle, names: list[str], how: str) -> Bundle:
    """Replace the captures of these sources by one that holds no answer."""
    status, text = BREAKAGES[how]
    kept = tuple(item for item in bundle.captures if item.source not in names)
    hurt = tuple(Capture(name, status, text, error=f"{how} in the test") for name in names)
    return replace(bundle, captures=(*kept, *hurt))


@cache
def required(check: Check) -> tuple[type, ...]:
    """Return the facts that a check cannot do without."""
    return tuple(_required(check))


def _required(check: Check) -> Iterator[type]:
    hints = get_type_hints(check.judge)
    hints.pop("return", None)
    for hint in hints.values():
        fact, optional = _optional(hint)
        if fact is not Expectations and not optional:
            yield fact


def passes(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.check for finding in findings if finding.verdict is Verdict.PASS}


@pytest.fixture(scope="module")
def healthy_passes(healthy: Bundle, want: Expectations) -> set[str]:
    return passes(examine(healthy, want))


def test_every_source_is_known_to_the_test() -> None:
    assert len(SOURCES) > 10
    assert len(SOURCES) == len(set(SOURCES))


def test_the_healthy_host_is_healthy(healthy: Bundle, want: Expectations) -> None:
    loud = [f for f in examine(healthy, want) if f.verdict in (Verdict.WARN, Verdict.FAIL)]
    assert loud == []


@pytest.mark.parametrize("how", BREAKAGES)
def test_nothing_passes_when_nothing_was_seen(healthy: Bundle, want: Expectations, how: str) -> None:
    assert passes(examine(broken(healthy, SOURCES, how), want)) == set()


def test_nothing_passes_on_an_empty_bundle(want: Expectations) -> None:
    findings = examine(Bundle("nobody", ()), want)
    assert passes(findings) == set()
    assert any(finding.verdict is Verdict.UNKNOWN for finding in findings)


@pytest.mark.parametrize("how", BREAKAGES)
@pytest.mark.parametrize("source", SOURCES)
def test_one_broken_source(
    healthy: Bundle, healthy_passes: set[str], want: Expectations, source: str, how: str
) -> None:
    """A check whose facts are gone passes nothing, and losing a source never makes a check pass anew."""
    bundle = broken(healthy, [source], how)
    findings = examine(bundle, want)
    facts = {fact for check in checks().values() for fact in required(check)}
    gone = {fact for fact in facts if isinstance(registry.read(bundle, fact), Unseen)}
    blind = {name for name, check in checks().items() if gone & {*required(check)}}
    told = {finding.check for finding in findings if finding.verdict not in (Verdict.UNKNOWN, Verdict.SKIP)}
    assert blind & told == set()
    assert passes(findings) <= healthy_passes


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=400))
def test_arbitrary_text_passes_nothing(want: Expectations, text: str) -> None:
    bundle = Bundle("noise", tuple(Capture(name, "ok", text) for name in SOURCES))
    assert passes(examine(bundle, want)) == set()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_cut_answer_never_raises(healthy: Bundle, want: Expectations, data: st.DataObject) -> None:
    """An answer that was cut anywhere may say less; it never breaks the examination."""
    item = data.draw(st.sampled_from(healthy.captures))
    end = data.draw(st.integers(0, len(item.text)))
    rest = tuple(other for other in healthy.captures if other is not item)
    findings = examine(replace(healthy, captures=(*rest, replace(item, text=item.text[:end]))), want)
    assert {finding.check for finding in findings} == set(checks())
