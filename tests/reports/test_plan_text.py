"""What is said before anything is done to a host."""

from __future__ import annotations

from qwenhost.plan import make_plan
from qwenhost.records.finding import NO_REMEDY, Finding, HostReport, Verdict, by_hardware, by_reboot, by_role
from qwenhost.records.plan import Consent
from qwenhost.reports.plan_text import drift_lines, plan_lines

SYSCTL = Finding("host.sysctl", "vm.swappiness", Verdict.FAIL, "60", "1", remedy=by_role("host_tuning"))
SERVICE = Finding("vllm.service", "vllm@main", Verdict.FAIL, "inactive", remedy=by_role("vllm_service"))
SERVES = Finding("vllm.ready", "vllm@main", Verdict.PASS, "HTTP 200", remedy=NO_REMEDY)
MODULE = Finding("driver.reboot-pending", "host", Verdict.WARN, "old module", remedy=by_reboot("Reboot."))
MISMATCH = Finding("driver.versions-agree", "host", Verdict.FAIL, "two versions", remedy=by_reboot("Reboot."))
NARROW = Finding("pcie.link-width", "gpu3", Verdict.FAIL, "x8", "x16", remedy=by_hardware("Reseat it."))


def told(*findings: Finding, reboot: bool = False, error: str = "") -> list[str]:
    report = HostReport("h1", "", findings, error=error)
    return [*plan_lines({"h1": report}, {"h1": make_plan(findings)}, {"h1": Consent(reboot=reboot)})]


def test_roles_are_named_with_their_reasons() -> None:
    assert told(SYSCTL, SERVICE) == [
        "h1: will run host_tuning, vllm_service",
        "  host_tuning: host.sysctl vm.swappiness (60, wanted 1)",
        "  vllm_service: vllm.service vllm@main (inactive)",
    ]


def test_a_reboot_stands_where_it_happens_and_says_that_the_host_serves() -> None:
    assert told(SYSCTL, SERVICE, MODULE, reboot=True)[0] == (
        "h1: will run host_tuning, then reboot, then run vllm_service"
    )
    assert told(SERVES, MODULE, reboot=True) == [
        "h1: will reboot",
        "  reboot (it serves now): driver.reboot-pending host (old module)",
    ]


def test_what_waits_for_a_reboot_is_told_where_none_is_allowed() -> None:
    assert told(MODULE) == [
        "h1: nothing to change",
        "  waits for a reboot: driver.reboot-pending host (old module); --reboot allows it",
    ]


def test_a_stopped_host_says_what_would_let_it_go_on() -> None:
    assert told(MISMATCH, NARROW) == [
        "h1: stopped, nothing will be changed here (2 that no role can fix)",
        "  pcie.link-width gpu3: x8, wanted x16",
        "  driver.versions-agree host: two versions [a reboot puts it right: --reboot allows it]",
    ]
    assert told(MISMATCH, NARROW, reboot=True)[1:] == ["  pcie.link-width gpu3: x8, wanted x16"]


def test_a_host_that_was_not_reached_is_left_alone() -> None:
    assert told(error="no route") == ["h1: not examined, nothing will be changed here"]


def test_a_host_that_was_not_examined_is_named_once_and_has_its_hint() -> None:
    report = HostReport("h1", "", (), error="h1: no route to 192.0.2.1:22", hint="is the host up?")
    assert [*drift_lines([report])] == ["h1: not examined: no route to 192.0.2.1:22", "  hint: is the host up?"]
