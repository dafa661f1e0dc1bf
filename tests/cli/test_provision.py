"""What `qwenhost provision` refuses and asks before any host is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.cli import main
from qwenhost.plan import make_plan
from qwenhost.records.finding import Finding, HostReport, Verdict, by_reboot, by_role
from qwenhost.records.host import Host
from qwenhost.workflows import inventory, provision
from qwenhost.workflows.provision import Provisioned, ProvisionOptions, Survey

FINDINGS = (
    Finding("host.sysctl", "vm.swappiness", Verdict.FAIL, "60", remedy=by_role("host_tuning")),
    Finding("driver.reboot-pending", "host", Verdict.WARN, "old module", remedy=by_reboot("Reboot.")),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ProvisionOptions]:
    """The options of the runs that were begun; two hosts drift and wait for a reboot, the first one fails."""
    begun: list[ProvisionOptions] = []
    hosts = (Host("a"), Host("b"))

    def surveyed(found: tuple[Host, ...], options: ProvisionOptions) -> Survey:
        reports = {host.name: HostReport(host.name, "", FINDINGS) for host in found}
        plans = {name: make_plan(report.findings) for name, report in reports.items()}
        return Survey(found, reports, plans, {host.name: options.consent(host) for host in found})

    def provisioned(before: Survey, options: ProvisionOptions, observe: object) -> Provisioned:
        begun.append(options)
        return Provisioned(tuple(before.reports.values()), ("a",), ("b",))

    monkeypatch.setattr(inventory, "load_hosts", lambda path, limit: hosts)
    monkeypatch.setattr(provision, "survey", surveyed)
    monkeypatch.setattr(provision, "provision", provisioned)
    return begun


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main.main(["provision", "hosts.yml", *arguments])
    return int(str(ended.value.code)), capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-fail", "1"], "--max-fail counts between batches of hosts"),
        (["--serial", "few"], "--serial few: neither a number of hosts nor a share"),
        ([], "nobody to ask on this terminal"),
    ],
)
def test_a_contradiction_ends_before_anything_is_done(
    asked: list[ProvisionOptions], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, messages = told(capsys, *arguments)
    assert code == 2 and message in messages and asked == []


def test_options_reach_the_run_and_what_was_not_begun_is_told(
    asked: list[ProvisionOptions], capsys: pytest.CaptureFixture[str], state_home: Path
) -> None:
    code, messages = told(capsys, "--yes", "--reboot", "--serial", "1", "--max-fail", "0")
    assert code == 1
    assert asked == [ProvisionOptions(Path("hosts.yml"), reboot=True, serial="1")]
    assert "a: will run host_tuning, then reboot" in messages
    assert "stopped: a failed; not begun: b" in messages
    assert str(state_home / "qwenhost" / "runs") in messages


def test_nothing_is_kept_where_that_was_asked(
    asked: list[ProvisionOptions], capsys: pytest.CaptureFixture[str], state_home: Path
) -> None:
    _, messages = told(capsys, "--yes", "--no-state")
    assert "of this run" not in messages and not state_home.exists()
