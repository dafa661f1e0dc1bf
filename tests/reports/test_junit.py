"""JUnit as a CI reads it: parsed again."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Finding, HostReport, Verdict, by_hardware
from qwenhost.reports import junit

SEEN = Bundle("lab1", (), captured_at="2026-12-02T18:00:00Z")


def suites(*reports: HostReport, strict: bool = False) -> list[ET.Element]:
    """Return the suites of the document."""
    root = ET.fromstring(junit.render(reports, strict=strict).encode())
    assert root.tag == "testsuites"
    return list(root)


def every_verdict() -> HostReport:
    """Return a report with one finding per verdict."""
    findings = tuple(
        Finding("gpu.count", name, verdict, "7 GPUs", "8 GPUs", "why", by_hardware("Reseat it."), evidence="line")
        for name, verdict in zip("abcdef", Verdict, strict=True)
    )
    return HostReport("lab1", "x", findings, bundle=SEEN)


@pytest.mark.parametrize(
    ("verdict", "outcome", "strict_outcome"),
    [
        ("pass", "", ""),
        ("skip", "skipped", "skipped"),
        ("note", "system-out", "system-out"),
        ("warn", "system-out", "failure"),
        ("unknown", "error", "error"),
        ("fail", "failure", "failure"),
    ],
)
def test_each_verdict_has_its_outcome(verdict: str, outcome: str, strict_outcome: str) -> None:
    report = HostReport("lab1", "", (Finding("a.b", "host", Verdict(verdict), observed="x"),))
    for strict, wanted in ((False, outcome), (True, strict_outcome)):
        (suite,) = suites(report, strict=strict)
        assert [child.tag for child in suite[0]] == ([wanted] if wanted else [])


def test_a_suite_counts_its_cases_and_tells_its_host() -> None:
    (suite,) = suites(every_verdict())
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "6", "failures": "1", "errors": "1", "skipped": "1"}
    assert (suite.get("name"), suite.get("timestamp")) == ("lab1", "2026-12-02T18:00:00")
    assert {case.get("classname") for case in suite} == {"lab1.gpu"}


def test_a_failure_tells_what_was_seen_and_what_to_do() -> None:
    (suite,) = suites(every_verdict())
    failure = suite.find(".//failure")
    assert failure is not None
    assert failure.get("message") == "7 GPUs, expected 8 GPUs"
    assert (failure.text or "").splitlines()[:2] == ["read: line", "next: Reseat it."]


def test_cases_of_one_subject_have_names_of_their_own() -> None:
    (suite,) = suites(HostReport("lab1", "", (Finding("a.b", "host", Verdict.PASS),) * 2))
    assert [case.get("name") for case in suite] == ["a.b host", "a.b host #2"]


def test_a_host_that_was_not_reached_is_an_error() -> None:
    unreached, reached = suites(HostReport("lab2", "", (), error="lab2: no", hint="up?"), every_verdict())
    error = unreached.find("testcase/error")
    assert error is not None
    assert (error.get("message"), error.text) == ("lab2: no", "up?")
    assert reached.get("errors") == "1"


def test_what_xml_cannot_hold_does_not_break_it() -> None:
    dirty = Finding("a.b", "<gpu> & \x1b[31m", Verdict.FAIL, "\x00\ud800\ufffe", evidence="a\x0bb")
    (suite,) = suites(HostReport("lab1", "", (dirty,)))
    assert suite[0].get("name") == "a.b <gpu> & ?[31m"
    assert suite[0][0].get("message") == "???"
