"""From findings to the steps and blockers of a plan."""

from __future__ import annotations

import pytest

from qwenhost.plan import ROLE_ORDER, make_plan
from qwenhost.records.finding import Finding, Remedy, Verdict, by_hardware, by_reboot, by_role
from qwenhost.records.plan import Consent


def found(check: str, verdict: Verdict, remedy: Remedy, cause: str = "") -> Finding:
    return Finding(check, "host", verdict, remedy=remedy, cause=cause)


def test_nothing_found_is_nothing_to_do() -> None:
    plan = make_plan([found("sysctl", Verdict.PASS, by_role("host_tuning"))])
    assert (plan.steps, plan.blockers) == ((), ())


def test_roles_run_in_their_order_and_once_each() -> None:
    findings = [found(f"{role}.{n}", Verdict.FAIL, by_role(role)) for n in (1, 2) for role in reversed(ROLE_ORDER)]
    plan = make_plan(findings)
    assert plan.roles == ROLE_ORDER
    assert [[each.check for each in step.findings] for step in plan.steps] == [
        [f"{role}.1", f"{role}.2"] for role in ROLE_ORDER
    ]
    assert plan.blockers == ()


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.UNKNOWN])
def test_what_no_role_puts_right_blocks(verdict: Verdict) -> None:
    broken = found("pcie.link-width", verdict, by_hardware("Reseat the board."))
    tuning = found("sysctl", Verdict.FAIL, by_role("host_tuning"))
    plan = make_plan([broken, tuning])
    assert plan.blockers == (broken,)
    assert plan.roles == ("host_tuning",)


def test_what_was_not_seen_of_a_role_is_its_work() -> None:
    plan = make_plan([found("vllm.unit", Verdict.UNKNOWN, by_role("vllm_service"))])
    assert (plan.roles, plan.blockers) == (("vllm_service",), ())


@pytest.mark.parametrize("remedy", [by_role("vllm_service"), by_hardware("Reseat the board.")])
def test_a_consequence_asks_for_nothing(remedy: Remedy) -> None:
    plan = make_plan([found("gpu.count", Verdict.FAIL, remedy, cause="driver.present")])
    assert (plan.steps, plan.blockers) == ((), ())


@pytest.mark.parametrize("verdict", [Verdict.SKIP, Verdict.PASS, Verdict.NOTE, Verdict.WARN])
def test_only_failed_and_unseen_ask_for_anything(verdict: Verdict) -> None:
    for remedy in (by_role("host_tuning"), by_hardware("Look at it.")):
        plan = make_plan([found("any", verdict, remedy)])
        assert (plan.steps, plan.blockers) == ((), ())


REBOOT = by_reboot("Reboot.")


@pytest.mark.parametrize(
    ("verdict", "reason", "stops"),
    [
        (Verdict.FAIL, True, True),
        (Verdict.UNKNOWN, True, True),
        (Verdict.WARN, True, False),
        (Verdict.NOTE, False, False),
        (Verdict.PASS, False, False),
        (Verdict.SKIP, False, False),
    ],
)
def test_what_waits_for_a_reboot_stops_only_a_host_that_cannot_go_on(
    verdict: Verdict, reason: bool, stops: bool
) -> None:
    waiting = found("driver.reboot-pending", verdict, REBOOT)
    plan = make_plan([waiting])
    assert plan.reboots == (waiting,) * reason
    assert plan.stoppers(Consent()) == (waiting,) * stops
    assert plan.stoppers(Consent(reboot=True)) == plan.stoppers(Consent(force=True)) == plan.blockers == ()


def test_a_reboot_mends_nothing_that_is_broken() -> None:
    broken = found("pcie.link-width", Verdict.FAIL, by_hardware("Reseat the board."))
    plan = make_plan([broken, found("driver.versions-agree", Verdict.FAIL, REBOOT)])
    assert plan.stoppers(Consent(reboot=True)) == (broken,)


def test_a_consequence_is_no_reason_for_a_reboot() -> None:
    assert make_plan([found("fabric.running", Verdict.FAIL, REBOOT, cause="driver.present")]).reboots == ()


def test_a_host_is_rebooted_once_all_but_the_service_is_set() -> None:
    plan = make_plan(
        [
            found("vllm.service", Verdict.FAIL, by_role("vllm_service")),
            found("host.kernel-args", Verdict.WARN, REBOOT),
            found("host.sysctl", Verdict.FAIL, by_role("host_tuning")),
        ]
    )
    assert plan.acts(Consent()) == ("host_tuning", "vllm_service")
    assert plan.acts(Consent(reboot=True)) == ("host_tuning", "reboot", "vllm_service")


def test_a_stopped_host_is_left_alone_unless_forced() -> None:
    broken = found("pcie.link-width", Verdict.FAIL, by_hardware("Reseat the board."))
    plan = make_plan([broken, found("host.sysctl", Verdict.FAIL, by_role("host_tuning"))])
    assert plan.acts(Consent(reboot=True)) == ()
    assert plan.acts(Consent(force=True)) == ("host_tuning",)
