"""What holds for every check, whatever is lost or damaged on the way."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from qwenhost.checks.declare import checks
from qwenhost.checks.engine import FAILED_ITSELF, ask, examine, facts_of
from qwenhost.expectations.declared import read_declared
from qwenhost.expectations.skus import skus
from qwenhost.facts import registry
from qwenhost.facts.registry import parsers, sources
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding, Verdict
from qwenhost.reports import json_report, text
from qwenhost.transports.recorded import read
from qwenhost.workflows.doctor import examine_bundle
from tests.checks.conftest import HEALTHY, logged
from tests.checks.test_absent_is_not_healthy import BREAKAGES
from tests.mutations import grown, mutated

WANT = Expectations(sku=skus()["a100-sxm4-80gb"], gpus=8, gpus_origin="test")

FALLEN = "NVRM: Xid (PCI:0000:4e:00): 79, pid=1234, name=python, GPU has fallen off the bus."
DOUBLE_BIT = "NVRM: Xid (PCI:0000:07:00): 48, pid=1234, name=python, Ch 00000008, errorString"

WORDS = st.text("abcdefghijklm 0123456789,;=", max_size=60)
"""Noise that holds none of the words by which a GPU's reset or a new boot is told."""


@cache
def healthy() -> Bundle:
    return read(str(HEALTHY))


@cache
def faulty() -> Bundle:
    return logged(healthy(), FALLEN, DOUBLE_BIT)


def of(check: str, bundle: Bundle) -> list[Finding]:
    return list(ask(checks()[check], lambda fact: registry.read(bundle, fact), WANT))


@cache
def sources_of(check: str) -> tuple[str, ...]:
    """Return the sources of all facts that a check takes."""
    facts = {fact for fact, _ in facts_of(checks()[check])}
    return tuple(sorted({parser.source.name for parser in parsers() if parser.fact in facts}))


def broken(bundle: Bundle, how: dict[str, str]) -> Bundle:
    """Replace the captures of sources by such as hold no answer, each in its own way."""
    kept = tuple(item for item in bundle.captures if item.source.partition(":")[0] not in how)
    hurt = tuple(Capture(name, *BREAKAGES[way], error="made up") for name, way in how.items())
    return replace(bundle, captures=(*kept, *hurt))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), bundle=st.sampled_from(("healthy", "faulty")))
def test_a_check_without_its_sources_never_passes(data: st.DataObject, bundle: str) -> None:
    """Each source may be lost in another way; that all others are there does not help."""
    check = data.draw(st.sampled_from(sorted(name for name in checks() if sources_of(name))))
    how = {name: data.draw(st.sampled_from(sorted(BREAKAGES)), label=name) for name in sources_of(check)}
    findings = of(check, broken(healthy() if bundle == "healthy" else faulty(), how))
    assert findings
    assert not [finding for finding in findings if finding.verdict is Verdict.PASS]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_was_lost_is_nothing_new_that_passes(data: st.DataObject) -> None:
    """Losing any sources of a healthy host never makes a check pass that did not."""
    names = data.draw(st.lists(st.sampled_from([source.name for source in sources()]), unique=True))
    how = {name: data.draw(st.sampled_from(sorted(BREAKAGES))) for name in names}
    before = {f.check for f in examine(healthy(), WANT) if f.verdict is Verdict.PASS}
    after = {f.check for f in examine(broken(healthy(), how), WANT) if f.verdict is Verdict.PASS}
    assert after <= before


@pytest.mark.parametrize(
    ("check", "gpu"), [("gpu.on-bus", "0000:4e:00.0"), ("memory.uncorrected-ecc", "0000:07:00.0")]
)
@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(data=st.data())
def test_a_failure_in_the_log_stands_while_its_line_does(check: str, gpu: str, data: st.DataObject) -> None:
    """Other lines may be lost, doubled or drowned: nothing but the loss of the line itself ends the failure."""
    [log] = faulty().of("dmesg")
    kept: list[str] = []
    for line in log.text.splitlines()[-30:]:
        kept += [line] * (1 if "Xid" in line else data.draw(st.sampled_from((0, 1, 2))))
        kept += [f"[ 4243.000000] {words}" for words in data.draw(st.lists(WORDS, max_size=1))]
    others = tuple(item for item in faulty().captures if item is not log)
    noisy = replace(faulty(), captures=(*others, replace(log, text="\n".join(kept) + "\n")))
    assert Verdict.FAIL in {finding.verdict for finding in of(check, noisy) if gpu in finding.subject}


@pytest.mark.parametrize("seed", range(60))
def test_damaged_captures_never_break_the_examination(seed: int) -> None:
    """Some hundred damaged captures; benchmarks/fuzz.py tries ten thousand."""
    dice = random.Random(seed)
    report = examine_bundle(mutated(dice, grown(healthy()), dice.randrange(1, 9)), read_declared({}, host="fuzz"))
    assert {finding.check for finding in report.findings} == set(checks())
    assert not [finding for finding in report.findings if finding.observed.startswith(FAILED_ITSELF)]
    assert json.loads(json_report.render([report]))
    assert text.render([report])
