"""What a second run says of the first, and how far advice goes."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from qwenhost.checks.declare import checks
from qwenhost.expectations.escalation import escalation
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.finding import Finding, HostReport, Verdict, by_hand, by_reboot
from qwenhost.records.since import Past, Since
from qwenhost.workflows import state

PENDING = "memory.row-remap-pending"
BOOTS = [f"{number}0000000-0000-4000-8000-000000000000" for number in range(9)]

REMEDY = by_hand("Reset it.")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def finding(check: str, verdict: str = "fail", subject: str = "gpu3", cause: str = "") -> Finding:
    """Return a finding with a remedy."""
    return Finding(check, subject, Verdict(verdict), remedy=REMEDY, cause=cause)


def run(at: str, *findings: Finding, boot: int = 0, told: list[str] | None = None) -> HostReport:
    """Examine the host once more; `at` is the time of day, with the day before it if it is not the first."""
    when = at if "T" in at else f"2026-12-02T{at}:00Z"
    bundle = Bundle("lab1", (Capture("boot-id", "ok", f"{BOOTS[boot]}\n"),), captured_at=when)
    (report,) = state.since_last_time(
        [HostReport("lab1", "", findings, bundle=bundle)], (told if told is not None else []).append
    )
    return report


def changes(report: HostReport) -> dict[str, list[str]]:
    """Return the checks by kind of change."""
    assert report.since is not None
    kinds = {kind: getattr(report.since, kind) for kind in ("new", "gone", "unchanged", "unseen")}
    return {kind: [past.check for past in pasts] for kind, pasts in kinds.items() if pasts}


def test_a_first_run_has_nothing_to_compare_with() -> None:
    assert run("10:00", finding("a.b")).since is None


def test_a_second_run_tells_new_gone_and_unchanged() -> None:
    run("10:00", finding("a.stays"), finding("a.goes"))
    second = run("11:00", finding("a.stays"), finding("a.goes", "pass"), finding("a.comes", "warn"))
    assert changes(second) == {"new": ["a.comes"], "gone": ["a.goes"], "unchanged": ["a.stays"]}
    assert second.since is not None
    assert second.since.examined_at == "2026-12-02T10:00:00Z"
    assert changes(run("12:00", finding("a.stays"), finding("a.comes"))) == {"unchanged": ["a.stays", "a.comes"]}


def test_a_verdict_that_changed_is_told() -> None:
    run("10:00", finding("a.b", "warn"))
    (past,) = (run("11:00", finding("a.b", "fail")).since or Since("")).unchanged
    assert (past.was, past.verdict, past.runs) == ("warn", "fail", 2)


@pytest.mark.parametrize(
    ("later", "fate"),
    [
        ((finding("a.b", "unknown", "host"),), {"unseen": ["a.b"]}),
        ((finding("a.b", "unknown"),), {"unseen": ["a.b"]}),
        ((finding("a.b", "skip"), finding("a.b", "pass", "gpu4")), {"unseen": ["a.b"]}),
        ((finding("a.b", "skip", "host"),), {"unseen": ["a.b"]}),
        ((finding("a.b", "pass", "host"),), {"gone": ["a.b"]}),
        ((finding("a.b", "note"),), {"gone": ["a.b"]}),
        ((finding("a.other", "pass"),), {"gone": ["a.b"]}),
        ((finding("a.b", "fail", cause="a.c"),), {"unchanged": ["a.b"]}),
    ],
)
def test_what_was_not_judged_is_not_gone(later: tuple[Finding, ...], fate: dict[str, list[str]]) -> None:
    run("10:00", finding("a.b"))
    assert changes(run("11:00", *later)) == fate


def test_what_was_not_judged_is_remembered_until_it_is_and_forgotten_after_weeks() -> None:
    run("10:00", finding("a.b"))
    run("11:00", finding("a.b", "unknown"))
    assert changes(run("12:00", finding("a.b"))) == {"unchanged": ["a.b"]}
    assert changes(run("2026-12-20T10:00:00Z", finding("a.b", "unknown"))) == {"gone": ["a.b"]}


def test_consequences_are_not_told_as_news_also_when_their_cause_is_gone() -> None:
    run("10:00")
    assert changes(run("11:00", finding("a.b", cause="a.c"), finding("a.c"))) == {"new": ["a.c"]}
    assert changes(run("12:00", finding("a.b", cause="a.c"), finding("a.c"))) == {"unchanged": ["a.c"]}
    assert changes(run("13:00", finding("a.b"), finding("a.c", "pass"))) == {"gone": ["a.c"], "unchanged": ["a.b"]}
    assert changes(run("14:00", finding("a.b", cause="a.c"), finding("a.c"))) == {
        "new": ["a.c"],
        "unchanged": ["a.b"],
    }


def test_a_consequence_that_ends_is_no_news() -> None:
    run("10:00", finding("a.b", cause="a.c"), finding("a.c"))
    assert changes(run("11:00", finding("a.b", "pass"), finding("a.c"))) == {"unchanged": ["a.c"]}
    run("12:00", finding("a.b", cause="a.c"), finding("a.c"))
    assert changes(run("13:00", finding("a.b", "unknown"), finding("a.c"))) == {"unchanged": ["a.c"]}


def advice(report: HostReport) -> str:
    """Return the kind of remedy of the first finding."""
    return report.findings[0].remedy.kind


def test_a_boot_that_did_not_help_leads_to_replacement() -> None:
    assert run("10:00", finding(PENDING), boot=1).findings[0].remedy == REMEDY
    after = run("11:00", finding(PENDING), boot=2)
    assert advice(after) == "hardware"
    assert "2026-12-02" in after.findings[0].remedy.text
    assert advice(run("12:00", finding(PENDING), boot=2)) == "hardware"


def test_a_reset_that_does_not_help_leads_to_a_reboot_and_that_to_replacement() -> None:
    days = [f"2026-12-{day:02}T10:00:00Z" for day in range(1, 8)]
    told = [advice(run(day, finding(PENDING))) for day in days[:5]]
    assert told == ["hand", "hand", "hand", "reboot", "reboot"]
    assert advice(run(days[5], finding(PENDING))) == "reboot"
    assert advice(run(days[6], finding(PENDING), boot=1)) == "hardware"


def test_runs_in_quick_succession_do_not_escalate() -> None:
    assert {advice(run(f"10:{minute:02}", finding(PENDING))) for minute in range(8)} == {"hand"}


def test_a_remedy_that_is_a_reboot_is_not_said_to_be_a_reset() -> None:
    asked = replace(finding("gpu.recovery-action"), remedy=by_reboot("Reboot it."))
    days = [f"2026-12-{day:02}T10:00:00Z" for day in range(1, 8)]
    assert {run(day, asked).findings[0].remedy for day in days} == {asked.remedy}
    assert advice(run("2026-12-09T10:00:00Z", asked, boot=1)) == "hardware"


def test_a_gpu_is_the_same_whatever_its_number() -> None:
    run("10:00", finding("a.b", subject="gpu3 0000:4c:00.0"), finding("a.b", subject="gpu 0000:88:00.0 link 3"))
    later = finding("a.b", subject="gpu 0000:4c:00.0"), finding("a.b", "pass", subject="gpu4 0000:88:00.0 link 3")
    report = run("11:00", *later)
    assert report.since is not None
    assert [past.subject for past in report.since.unchanged] == ["gpu 0000:4c:00.0"]
    assert [past.subject for past in report.since.gone] == ["gpu 0000:88:00.0 link 3"]


def test_an_alarm_that_was_gone_starts_anew() -> None:
    run("10:00", finding(PENDING), boot=1)
    run("11:00", finding(PENDING, "pass"), boot=2)
    assert advice(run("12:00", finding(PENDING), boot=3)) == "hand"


def test_advice_of_other_checks_stays_as_it_is() -> None:
    run("10:00", finding("host.swap"), boot=1)
    assert run("11:00", finding("host.swap"), boot=2).findings[0].remedy == REMEDY


def test_the_table_of_steps_names_checks_that_exist() -> None:
    assert set(escalation().first) <= set(checks())
    assert list(escalation().steps) == ["reset", "reboot", "replace"]


def test_the_file_is_private_and_versioned(folder: Path) -> None:
    run("10:00", finding("a.b"))
    (path,) = folder.rglob("*.json")
    assert path == folder / "qwenhost" / "hosts" / "lab1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text())["schema"] == 1
    assert [item.name for item in path.parent.iterdir()] == ["lab1.json"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "root@gpu1:22", "a/b", ".."])
def test_a_name_of_a_host_is_no_path(folder: Path, name: str) -> None:
    assert state.state_file(name).parent == folder / "qwenhost" / "hosts"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "alarms": [{"x": 1}]}'])
def test_a_file_that_cannot_be_read_is_one_message_and_stays(folder: Path, content: str) -> None:
    path = folder / "qwenhost" / "hosts" / "lab1.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    told: list[str] = []
    assert run("10:00", finding("a.b"), told=told).since is None
    assert len(told) == 1
    assert str(path) in told[0]
    assert path.read_text() == content


def test_a_folder_that_cannot_be_written_is_one_message_for_all_hosts(folder: Path) -> None:
    (folder / "qwenhost").write_text("a file where a folder should be")
    told: list[str] = []
    reports = [HostReport(f"lab{number}", "", (finding("a.b"),)) for number in range(3)]
    assert list(state.since_last_time(reports, told.append)) == reports
    assert len(told) == 1


def test_an_older_bundle_is_not_compared() -> None:
    run("10:00", finding("a.b"))
    told: list[str] = []
    assert run("09:00", finding("a.c"), told=told).since is None
    assert "older than the last run" in told[0]
    assert changes(run("11:00", finding("a.b"))) == {"unchanged": ["a.b"]}


def test_a_host_that_was_not_reached_keeps_its_state() -> None:
    run("10:00", finding("a.b"))
    state.since_last_time([HostReport("lab1", "", (), error="no")], print)
    assert changes(run("11:00", finding("a.b"))) == {"unchanged": ["a.b"]}


def test_the_worst_of_two_alarms_on_a_subject_counts() -> None:
    run("10:00", finding("a.b", "fail"), finding("a.b", "warn"))
    (past,) = (run("11:00", finding("a.b", "warn"), finding("a.b", "fail")).since or Since("")).unchanged
    assert isinstance(past, Past)
    assert (past.verdict, past.was) == ("fail", "")
