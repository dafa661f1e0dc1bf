"""Which hosts a rollout begins, and what it says of each; Ansible and the hosts are stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Finding, HostReport, Verdict, by_reboot, by_role
from qwenhost.records.host import Host
from qwenhost.workflows import provision as workflow
from qwenhost.workflows.playbook import PlaybookOptions, PlaybookRun
from qwenhost.workflows.provision import Provisioned, ProvisionOptions, provision, survey

NAMES = ("a", "b", "c", "d")
DRIFT = Finding("host.sysctl", "vm.swappiness", Verdict.FAIL, "60", remedy=by_role("host_tuning"))
WAITS = Finding("driver.reboot-pending", "host", Verdict.WARN, "old module", remedy=by_reboot("Reboot."))
OPTIONS = ProvisionOptions(Path("hosts.yml"))


@pytest.fixture
def begun() -> list[PlaybookOptions]:
    """The runs of the playbook, in order."""
    return []


@pytest.fixture
def rolled(monkeypatch: pytest.MonkeyPatch, begun: list[PlaybookOptions]) -> Callable[..., Provisioned]:
    def examined(hosts: Sequence[Host], known: Mapping[str, Bundle]) -> list[HostReport]:
        return [HostReport(host.name, "", (), bundle=known.get(host.name)) for host in hosts]

    def roll(
        options: ProvisionOptions, failing: Iterable[str] = (), before: Sequence[Finding] = (DRIFT,)
    ) -> Provisioned:
        def play(name: str, how: PlaybookOptions, observe: object) -> PlaybookRun:
            begun.append(how)
            lost = {host: 1 for host in how.limit.split(",") if host in failing}
            ended = {host: Bundle(host, (), "after") for host in how.limit.split(",") if host not in failing}
            return PlaybookRun(
                failures=dict.fromkeys(lost, "Tune: no"), recap={"failures": lost, "ok": {"x": 1}}, bundles=ended
            )

        found = tuple(before)
        monkeypatch.setattr(
            workflow,
            "examine_hosts",
            lambda hosts: [HostReport(h.name, "", found, bundle=Bundle(h.name, (), "before")) for h in hosts],
        )
        monkeypatch.setattr(workflow, "run_playbook", play)
        surveyed = survey([Host(name) for name in NAMES], options)
        monkeypatch.setattr(workflow, "examine_hosts", examined)
        return provision(surveyed, options, lambda event: None)

    return roll


@pytest.mark.parametrize(
    ("serial", "max_fail", "failing", "batches", "not_begun"),
    [
        ("", 0, "", ["a,b,c,d"], ""),
        ("", 0, "ab", ["a,b,c,d"], ""),
        ("2", 0, "", ["a,b", "c,d"], ""),
        ("1", 0, "a", ["a"], "bcd"),
        ("1", 0, "b", ["a", "b"], "cd"),
        ("1", 1, "a", ["a", "b", "c", "d"], ""),
        ("1", 1, "ac", ["a", "b", "c"], "d"),
        ("50%", 1, "ab", ["a,b"], "cd"),
        ("50%", 2, "ab", ["a,b", "c,d"], ""),
    ],
)
def test_no_batch_is_begun_when_more_have_failed_than_may(
    rolled: Callable[..., Provisioned],
    begun: list[PlaybookOptions],
    serial: str,
    max_fail: int,
    failing: str,
    batches: list[str],
    not_begun: str,
) -> None:
    done = rolled(ProvisionOptions(Path("hosts.yml"), serial=serial, max_fail=max_fail), failing)
    assert [how.limit for how in begun] == batches
    assert (done.failed, done.not_begun) == (tuple(failing), tuple(not_begun))
    told = {report.host: report for report in done.reports}
    assert tuple(told) == NAMES
    assert [name for name, report in told.items() if "not_begun" in report.notes] == list(not_begun)
    assert all(told[name].findings == (DRIFT,) for name in not_begun), "they are as they were found"
    assert all(told[name].findings[0].observed == "Tune: no" for name in failing)


def test_a_run_that_broke_off_before_its_hosts_is_a_failure_of_each() -> None:
    assert PlaybookRun(status="failed").broken("a") == "Ansible ended: failed"
    assert PlaybookRun(status="successful", recap={"ok": {"a": 3}}).broken("a") == ""
    rescued = PlaybookRun(failures={"a": "Fetch: no"}, recap={"rescued": {"a": 1}, "failures": {}, "ok": {"a": 3}})
    assert rescued.broken("a") == ""


def test_hosts_that_wait_for_a_reboot_are_begun_only_where_it_is_allowed(
    rolled: Callable[..., Provisioned], begun: list[PlaybookOptions]
) -> None:
    assert rolled(OPTIONS, before=[WAITS]).reports[0].findings == (WAITS,)
    assert begun == []
    rolled(ProvisionOptions(Path("hosts.yml"), reboot=True), before=[WAITS])
    assert [(how.limit, how.extra) for how in begun] == [("a,b,c,d", {"qwenhost_reboot": True})]


@pytest.mark.parametrize(("declared", "allowed"), [(True, True), ("yes", True), ("false", False), (None, False)])
def test_an_inventory_may_allow_the_reboot_of_its_hosts(declared: object, allowed: bool) -> None:
    assert OPTIONS.consent(Host("a", variables={"qwenhost_reboot": declared})).reboot is allowed


def test_the_play_is_given_the_survey_and_what_it_took_last_is_reported(
    rolled: Callable[..., Provisioned], begun: list[PlaybookOptions]
) -> None:
    done = rolled(OPTIONS, failing="b")
    assert [(bundle.host, bundle.captured_at) for bundle in begun[0].bundles] == [(n, "before") for n in NAMES]
    taken = {report.host: report.bundle.captured_at for report in done.reports if report.bundle}
    assert taken == {"a": "after", "c": "after", "d": "after"}, "b broke off: it is asked again"


def test_a_survey_that_waited_long_is_not_given(
    rolled: Callable[..., Provisioned], begun: list[PlaybookOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "FRESH_SECONDS", 0)
    rolled(OPTIONS)
    assert begun[0].bundles == ()
