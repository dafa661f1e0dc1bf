"""What people read."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from qwenhost.records.finding import (
    Change,
    Finding,
    HostReport,
    Verdict,
    by_hand,
    by_hardware,
    by_role,
)
from qwenhost.records.since import Past, Since
from qwenhost.reports import exit_code, text

NARROW = Finding(
    "pcie.link-width",
    "gpu3 0000:4e:00.0",
    Verdict.FAIL,
    observed="x8",
    expected="x16",
    remedy=by_hardware("Reseat the card."),
    origin="skus/a100-sxm4-80gb.yaml",
    evidence="current_link_width 8",
)
SLOW = Finding("gpu.bandwidth", "gpu3", Verdict.WARN, observed="12 GB/s", cause="pcie.link-width")
PASSED = Finding("gpu.count", "host", Verdict.PASS, observed="8")
SKIPPED = Finding("mig.layout", "host", Verdict.SKIP, observed="nothing declared")


def unknown(check: str, source: str = "dmesg", cause: str = "") -> Finding:
    """Return a finding that was not seen."""
    return Finding(check, "host", Verdict.UNKNOWN, observed=f"{source}: denied", source=source, cause=cause)


def lines(*findings: Finding) -> list[str]:
    """Return the report of one host with these findings."""
    return text.render([HostReport("lab1", "a100-sxm4-80gb", findings)]).splitlines()


def test_the_first_line_tells_the_whole() -> None:
    shown = lines(PASSED, SKIPPED, NARROW)
    assert shown[0] == "lab1: a100-sxm4-80gb, 1 failed, 1 passed, 1 not applicable"


def test_a_failure_tells_what_was_seen_expected_and_read() -> None:
    shown = lines(NARROW)
    assert shown[1] == (
        "  FAIL pcie.link-width on gpu3 0000:4e:00.0: x8, expected x16  [skus/a100-sxm4-80gb.yaml]"
    )
    assert shown[2] == "       read: current_link_width 8"


def test_a_failure_tells_why_it_matters_in_one_sentence() -> None:
    why = "Each GPU has its lanes.\n\nHalf the lanes load weights at\nhalf the rate. Nothing else tells."
    shown = lines(replace(NARROW, why=why))
    assert shown[3] == "       why: Half the lanes load weights at half the rate."


def test_failures_come_first_and_passes_are_not_listed() -> None:
    warned = Finding("host.swap", "host", Verdict.WARN, observed="on")
    shown = lines(PASSED, warned, NARROW)
    assert [line.split()[0] for line in shown[1:] if line.startswith("  ")][:1] == ["FAIL"]
    assert not any("gpu.count" in line for line in shown)


def test_consequences_stand_under_their_cause() -> None:
    hidden = [unknown(f"nvlink.c{number}", "nvml", cause="pcie.link-width") for number in range(5)]
    shown = lines(SLOW, NARROW, *hidden)
    assert shown[3] == "       WARN gpu.bandwidth on gpu3: 12 GB/s"
    assert shown[4] == "       ???? nvlink.c0 ... nvlink.c4 (5): not seen because of this"
    assert sum("gpu.bandwidth" in line for line in shown) == 1


def test_a_chain_of_causes_is_told_under_its_start() -> None:
    second = Finding("vllm.ready", "host", Verdict.FAIL, observed="no", cause="gpu.bandwidth")
    first = Finding("gpu.bandwidth", "gpu3", Verdict.FAIL, observed="0", cause="pcie.link-width")
    shown = lines(second, first, NARROW)
    assert [line.split()[1].rstrip(":") for line in shown[3:5]] == ["vllm.ready", "gpu.bandwidth"]


def test_the_same_fault_of_many_is_one_line() -> None:
    many = [
        Finding("gpu.persistence", f"gpu{number}", Verdict.WARN, observed="off", expected="on")
        for number in range(8)
    ]
    shown = lines(*many)
    assert shown[1] == "  WARN gpu.persistence on gpu0 ... gpu7 (8): off, expected on"
    assert len(shown) == 2


def test_what_was_not_seen_is_one_line_per_source() -> None:
    shown = lines(unknown("gpu.xid"), unknown("host.oom"), unknown("pcie.aer"), unknown("host.mce"))
    assert shown[1:] == ["  ???? dmesg: denied (needed by gpu.xid ... host.mce (4))"]


def test_next_steps_name_each_act_once_and_roles_last() -> None:
    tuned = Finding("host.sysctl", "x", Verdict.FAIL, remedy=by_role("host_tuning"))
    by_hand_too = Finding("host.swap", "host", Verdict.WARN, remedy=by_hand("Switch swap off."))
    other = Finding("pcie.link-speed", "gpu3", Verdict.FAIL, remedy=by_hardware("Reseat the card."))
    shown = lines(tuned, by_hand_too, other, NARROW)
    assert shown[shown.index("Next") + 1 :] == [
        "  1. Reseat the card. (pcie.link-speed, pcie.link-width)",
        "  2. Switch swap off. (host.swap)",
        "  3. qwenhost provision (runs host_tuning)",
    ]


def test_a_fleet_has_a_line_per_host_and_unreached_hosts_say_why() -> None:
    reports = [
        HostReport("lab1", "a100-sxm4-80gb", (PASSED,)),
        HostReport("lab2", "", (), error="lab2: 10.0.0.2:22 does not answer", hint="is it up?"),
    ]
    shown = text.render(reports).splitlines()
    assert "lab2: not examined: 10.0.0.2:22 does not answer" in shown
    assert "  hint: is it up?" in shown
    assert shown[-2:] == [
        "lab1  a100-sxm4-80gb, 1 passed",
        "lab2  not examined: 10.0.0.2:22 does not answer",
    ]


def test_a_host_of_a_fleet_with_nothing_to_tell_has_one_line() -> None:
    shown = text.render([HostReport("lab1", "x", (PASSED,)), HostReport("lab2", "x", (NARROW,))])
    assert shown.count("lab1") == 1
    assert "lab1        x, 1 passed" in shown.splitlines()


def test_a_fleet_is_a_matrix_of_hosts_and_subjects() -> None:
    swap = Finding("host.swap", "host", Verdict.WARN)
    reports = [
        HostReport("lab1", "x", (NARROW, PASSED, SKIPPED)),
        HostReport("gpu-02", "x", (PASSED, swap, replace(swap, verdict=Verdict.PASS), unknown("pcie.aer"))),
        HostReport("lab3", "", (), error="lab3: no"),
    ]
    shown = text.render(reports).splitlines()
    head = next(number for number, row in enumerate(shown) if row.startswith("        pcie  host"))
    assert [row.split()[:3] for row in shown[head + 1 : head + 4]] == [
        ["lab1", "FAIL", "x,"],
        ["gpu-02", "????", "WARN"],
        ["lab3", "not", "examined:"],
    ]
    assert shown[head + 4] == "nothing to tell of gpu, mig"


def test_changes_since_the_run_before_are_told_a_line_each() -> None:
    old = Past("a.b", "gpu1", "fail", "2026-12-01T18:00:00Z", "2026-12-02T18:00:00Z", runs=4)
    since = Since(
        "2026-12-02T17:00:00Z",
        new=(replace(old, subject="host", runs=1),),
        gone=(replace(old, check="a.c"),),
        unchanged=(
            old,
            replace(old, subject="gpu2", runs=5),
            replace(old, check="a.d", step="reboot", escalated=True),
        ),
        unseen=(replace(old, check="a.e", was="warn"),),
    )
    shown = text.render([HostReport("lab1", "x", (PASSED,), since=since)]).splitlines()
    assert shown[1:] == [
        "  since the run of 2026-12-02T17:00:00Z:",
        "    new            a.b (fail)",
        "    gone           a.c on gpu1 (fail)",
        "    unchanged      a.b on gpu1, gpu2 (fail), 5 runs since 2026-12-01",
        "    unchanged      a.d on gpu1 (fail), 4 runs since 2026-12-01; advice now: reboot",
        "    not judged now a.e on gpu1 (warn -> fail), 4 runs since 2026-12-01",
    ]


def test_who_ran_without_root_is_told_to() -> None:
    report = HostReport("lab1", "x", (unknown("gpu.xid"),), notes={"user_id": "1000"})
    assert "  1. Examine again as root, to see what is hidden from others (lab1)" in text.render([report])


def test_changes_are_listed() -> None:
    report = HostReport("lab1", "x", (PASSED,), changes=(Change("Write sysctl", "host_tuning"),))
    assert "  changed host_tuning: Write sysctl" in text.render([report])


def test_files_that_nobody_knows_are_named() -> None:
    report = HostReport("case", "", (PASSED,), unrecognised=("notes.txt",))
    assert "  not recognised, so not used: notes.txt" in text.render([report])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_only_on_a_terminal_that_wants_them(
    monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    terminal, pipe = Terminal(), io.StringIO()
    text.write([HostReport("lab1", "x", (NARROW,))], terminal)
    text.write([HostReport("lab1", "x", (NARROW,))], pipe)
    assert ("\x1b[" in terminal.getvalue()) is coloured
    assert "\x1b[" not in pipe.getvalue()
    assert "pcie.link-width" in terminal.getvalue()


def test_square_brackets_are_text_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    text.write([HostReport("lab1", "x", (Finding("a.b", "host", Verdict.FAIL, "[bold]x[/bold]"),))], terminal)
    assert "[bold]x[/bold]" in terminal.getvalue()


@pytest.mark.parametrize(
    ("verdicts", "strict", "code"),
    [
        ([Verdict.PASS, Verdict.NOTE, Verdict.SKIP], False, 0),
        ([Verdict.WARN], False, 0),
        ([Verdict.WARN], True, 1),
        ([Verdict.UNKNOWN], False, 3),
        ([Verdict.UNKNOWN, Verdict.FAIL], False, 1),
        ([Verdict.UNKNOWN, Verdict.WARN], True, 1),
    ],
)
def test_exit_codes(verdicts: list[Verdict], strict: bool, code: int) -> None:
    findings = tuple(Finding("a.b", "host", verdict) for verdict in verdicts)
    assert exit_code([HostReport("h", "", findings)], strict=strict) == code


def test_a_host_that_was_not_reached_was_not_seen() -> None:
    assert exit_code([HostReport("h", "", (), error="h: no")]) == 3


def test_a_preview_tells_what_would_change() -> None:
    report = HostReport("lab1", "", (), changes=(Change("Write limits", "host_tuning"),))
    assert "  changed host_tuning: Write limits" in text.render([report])
    preview = replace(report, notes={text.PREVIEW: "nothing was changed"})
    assert "  would change host_tuning: Write limits" in text.render([preview])
