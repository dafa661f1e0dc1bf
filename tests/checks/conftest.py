"""A healthy host of eight A100 boards, and ways to change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from qwenhost.checks import engine
from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.facts import registry
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding
from qwenhost.transports.recorded import read

HEALTHY = Path(__file__).parent.parent / "bundles" / "a100-sxm4-80gb-x8"

ReadFact = Callable[[Bundle, type[Any]], Any]

Edit = tuple[str, str, str]
"""Source, text, replacement; every source whose name starts so is edited."""


@pytest.fixture(scope="session", autouse=True)
def parsed_once() -> Iterator[None]:
    """Parse equal captures once for all tests: parsers are pure, and hundreds of tests share most captures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_parsed", cache(registry._parsed))
        patch.setattr(registry, "read", _merged_once(registry.read))
        patch.setattr(engine, "read", registry.read)
        yield


def _merged_once(read_fact: ReadFact) -> ReadFact:
    """Merge a fact once per set of captures that have a part in it."""
    known: dict[Any, Any] = {}

    def read_once(bundle: Bundle, fact: type[Any]) -> Any:
        names = {parser.source.name for parser in registry.parsers() if parser.fact is fact}
        key = (fact, *(item for item in bundle.captures if item.source.partition(":")[0] in names))
        if key not in known:
            known[key] = read_fact(bundle, fact)
        return known[key]

    return read_once


@pytest.fixture(scope="session")
def healthy() -> Bundle:
    return read(str(HEALTHY))


@pytest.fixture(scope="session")
def want() -> Expectations:
    return Expectations(sku=skus()["a100-sxm4-80gb"], gpus=8, gpus_origin="test")


def only(bundle: Bundle, *sources: str) -> Bundle:
    """Keep the captures of these sources."""
    return replace(bundle, captures=tuple(item for item in bundle.captures if item.source in sources))


def without(bundle: Bundle, *sources: str) -> Bundle:
    """Drop the captures of these sources."""
    return replace(bundle, captures=tuple(item for item in bundle.captures if item.source not in sources))


def edited(bundle: Bundle, *edits: Edit) -> Bundle:
    """Apply edits; one that changes nothing is a mistake of the test."""
    captures = list(bundle.captures)
    for source, old, new in edits:
        hit = [number for number, item in enumerate(captures) if item.source == source and old in item.text]
        assert hit, f"{source}: no {old!r}"
        for number in hit:
            captures[number] = replace(captures[number], text=captures[number].text.replace(old, new))
    return replace(bundle, captures=tuple(captures))


def logged(bundle: Bundle, *lines: str) -> Bundle:
    """Add lines at the end of the kernel log."""
    dmesg = bundle.of("dmesg")[0]
    text = dmesg.text + "".join(f"[ 4242.{number:06d}] {line}\n" for number, line in enumerate(lines))
    return replace(
        without(bundle, "dmesg"), captures=(*without(bundle, "dmesg").captures, replace(dmesg, text=text))
    )


def added(bundle: Bundle, source: str, text: str) -> Bundle:
    """Add a capture."""
    return replace(bundle, captures=(*bundle.captures, Capture(source, "ok", text)))


@pytest.fixture
def verdicts(want: Expectations) -> Callable[..., dict[str, str]]:
    """Return the worst verdict per check that is not pass or skip."""
    order = ["skip", "pass", "note", "unknown", "warn", "fail"]

    def collect(bundle: Bundle, expected: Expectations = want) -> dict[str, str]:
        worst: dict[str, str] = {}
        for finding in examine(bundle, expected):
            worst[finding.check] = max(worst.get(finding.check, "skip"), finding.verdict.value, key=order.index)
        return {check: verdict for check, verdict in worst.items() if verdict not in ("pass", "skip")}

    return collect


def of(findings: tuple[Finding, ...], check: str) -> list[Finding]:
    """Return the findings of one check."""
    return [finding for finding in findings if finding.check == check]
