"""The report as JUnit XML for CI: a test suite per host, a test case per check and subject.

What failed is a failure, what could not be seen is an error (the test could not be made), what does not apply
is skipped. Warnings and notes pass, with their text as output; with `strict` a warning is a failure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as ET

from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.reports.grouping import described

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""All that XML 1.0 does not allow (production 2, Char); terminals' escapes among it."""

REACHED = "examined"


def render(reports: Sequence[HostReport], *, strict: bool = False, tool: str = "qwenhost doctor") -> str:
    """Return the document; `tool` names it."""
    suites = [_suite(report, strict) for report in reports]
    root = ET.Element("testsuites", {"name": tool, **_totals(suites)})
    root.extend(suites)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(report: HostReport, strict: bool) -> ET.Element:
    cases = [_unreached(report)] if report.error else list(_cases(report, strict))
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    suite = ET.Element("testsuite", _told({"name": report.host, "hostname": report.host, **counts, "time": 0}))
    if report.examined_at:
        suite.set("timestamp", report.examined_at.removesuffix("Z"))
    suite.extend(cases)
    return suite


def _totals(suites: Iterable[ET.Element]) -> dict[str, str]:
    told = list(suites)
    return {
        name: str(sum(int(suite.get(name, "0")) for suite in told))
        for name in ("tests", "failures", "errors", "skipped")
    }


def _cases(report: HostReport, strict: bool) -> Iterable[ET.Element]:
    """Yield a case per finding; the same subject twice is numbered, for viewers join cases of one name."""
    seen: Counter[tuple[str, str]] = Counter()
    for finding in report.findings:
        key = (finding.check, finding.subject)
        seen[key] += 1
        number = f" #{seen[key]}" if seen[key] > 1 else ""
        yield _case(report.host, finding, number, strict)


def _case(host: str, finding: Finding, number: str, strict: bool) -> ET.Element:
    subject = finding.check.partition(".")[0]
    name = f"{finding.check} {finding.subject}{number}"
    case = ET.Element("testcase", _told({"classname": f"{host}.{subject}", "name": name, "time": 0}))
    failures = (Verdict.FAIL, Verdict.WARN) if strict else (Verdict.FAIL,)
    if finding.verdict in failures:
        _told_in(case, "failure", finding)
    elif finding.verdict is Verdict.UNKNOWN:
        _told_in(case, "error", finding)
    elif finding.verdict is Verdict.SKIP:
        ET.SubElement(case, "skipped", _told({"message": finding.observed}))
    elif finding.verdict in (Verdict.WARN, Verdict.NOTE):
        output = f"{finding.verdict.value}: {described(finding)}\n{_details(finding)}"
        ET.SubElement(case, "system-out").text = _clean(output)
    return case


def _told_in(case: ET.Element, tag: str, finding: Finding) -> None:
    attributes = {"type": finding.verdict.value, "message": described(finding)}
    ET.SubElement(case, tag, _told(attributes)).text = _clean(_details(finding))


def _unreached(report: HostReport) -> ET.Element:
    case = ET.Element("testcase", _told({"classname": report.host, "name": REACHED, "time": 0}))
    error = ET.SubElement(case, "error", _told({"type": "unreachable", "message": report.error}))
    error.text = _clean(report.hint)
    return case


def _details(finding: Finding) -> str:
    """Return what a reader of the log wants beside the message, a line each."""
    rows = {
        "read": finding.evidence,
        "source": finding.source,
        "expected by": finding.origin,
        "because of": finding.cause,
        "next": finding.remedy.text,
        "why": finding.why,
    }
    return "\n".join(f"{name}: {value}" for name, value in rows.items() if value)


def _told(attributes: Mapping[str, object]) -> dict[str, str]:
    return {name: _clean(str(value)) for name, value in attributes.items()}


def _clean(text: str) -> str:
    return NOT_IN_XML.sub("?", text)
