"""Drift is what a role would put right, and nothing else."""

from __future__ import annotations

from qwenhost.records.finding import Finding, HostReport, Verdict, by_hand, by_role
from qwenhost.reports.plan_text import drift_lines
from qwenhost.workflows import drift

TUNING = by_role("host_tuning")


def finding(check: str, verdict: Verdict, remedy=TUNING) -> Finding:
    return Finding(check, "host", verdict, observed="0", expected="1", remedy=remedy)


def test_only_what_a_role_sets_is_drift(monkeypatch) -> None:
    findings = (
        finding("host.sysctl", Verdict.FAIL),
        finding("host.hugepages", Verdict.UNKNOWN),
        finding("host.memlock", Verdict.NOTE),
        finding("pcie.link-width", Verdict.FAIL, by_hand("Reseat it.")),
    )
    reports = (HostReport("a", "", findings), HostReport("b", "", ()), HostReport("c", "", (), error="no route"))
    monkeypatch.setattr(drift, "examine_hosts", lambda hosts: reports)
    told = drift.drift([])
    assert [found.check for found in told[0].findings] == ["host.sysctl", "host.hugepages"]
    assert list(drift_lines(told)) == [
        "a: 2 not as declared",
        "  host.sysctl host: 0, wanted 1 [host_tuning]",
        "  host.hugepages host: 0, wanted 1 [host_tuning]",
        "b: as declared",
        "c: not examined: no route",
    ]
