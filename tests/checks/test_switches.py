"""fabric.switch-errors and fabric.restart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.driver_tables import sxids
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding
from tests.checks.conftest import added, edited, logged, of, only, without

Verdicts = Callable[..., dict[str, str]]

SXID = "nvidia-nvswitch2: SXid (PCI:0000:ab:00.0): {}"
SAID = (
    "[Nov 30 2026 10:11:12] [ERROR] [tid 841] detected NVSwitch {} error {} on fid 0 on NVSwitch pci bus id "
    "00000000:AB:00.0 physical id 3 port 33\n"
)
STALE_UNIT = "ActiveEnterTimestampMonotonic=21873004"


def told(bundle: Bundle, want: Expectations, check: str = "fabric.switch-errors") -> list[Finding]:
    return of(examine(bundle, want), check)


@pytest.mark.parametrize(
    ("line", "verdict", "kind"),
    [
        ("20034, Fatal, Link 30 LTSSM Fault Up", "fail", "reboot"),
        ("12020, Fatal, Link 05 egress sequence ID error (First)", "fail", "reboot"),
        ("24007, Fatal, Link 12 sourcetrack timeout error", "fail", "reboot"),
        ("12028, Non-fatal, Link 32 egress non-posted PRIV error (First)", "warn", "hand"),
        ("22012, Non-fatal, Link 07 Minion Link NA interrupt", "warn", "reboot"),
        ("10004, Non-fatal, Host_thermal_event_start", "warn", "hardware"),
        ("20009, Non-fatal, Link 28 RX Short Error Rate", "note", "hardware"),
        ("20001, Non-fatal, Link 28 TX Replay Error", "note", "hardware"),
        ("11012, Non-fatal, Link 02 ingress ECC SBE", "note", "none"),
        ("22013, Non-fatal, Link 46 Minion Link DLREQ interrupt", "note", "none"),
        ("29999, Fatal, Link 01 brand new", "fail", "hand"),
        ("29999, Non-fatal, Link 01 brand new", "warn", "hand"),
    ],
)
def test_errors_by_their_class(healthy: Bundle, want: Expectations, line: str, verdict: str, kind: str) -> None:
    (row,) = told(logged(healthy, SXID.format(line)), want)
    assert (row.verdict, row.subject, row.remedy.kind) == (verdict, "nvswitch 0000:ab:00.0", kind)


def test_one_row_per_switch_and_error(healthy: Bundle, want: Expectations) -> None:
    lines = [f"20009, Non-fatal, Link {link} RX Short Error Rate" for link in ("28", "05", "28")]
    details = [
        "20009, Severity 0 Engine instance 28 Sub-engine instance 00",
        "20009, Data {0x00000001, 0x00000000}",
    ]
    (row,) = told(logged(healthy, *[SXID.format(line) for line in (*lines, *details)]), want)
    assert row.verdict == "warn", "repeated"
    assert row.observed.startswith("SXid 20009 x3: ") and "link 28, 5, first at 4242.000000" in row.observed


def test_links_that_fail_are_a_consequence(healthy: Bundle, want: Expectations) -> None:
    xid = "NVRM: Xid (PCI:0000:4c:00): 74, pid=7, name=x, NVLink: fatal error detected on link 3(0x0)"
    bundle = logged(healthy, SXID.format("20034, Fatal, Link 30 LTSSM Fault Up"), xid)
    (row,) = [finding for finding in told(bundle, want, "nvlink.errors") if finding.verdict == "fail"]
    assert row.cause == "fabric.switch-errors"


def test_the_fabric_managers_own_log(healthy: Bundle, want: Expectations) -> None:
    log = SAID.format("fatal", 20034) + SAID.format("non-fatal", 12028)
    bundle = added(without(healthy, "dmesg"), "fabricmanager-log", log)
    rows = {row.observed.partition(",")[0]: str(row.verdict) for row in told(bundle, want)}
    assert rows == {
        "SXid 20034 x1: link went down from active": "fail",
        "SXid 12028 x1: privileged access at egress": "warn",
    }
    both = logged(added(healthy, "fabricmanager-log", log), SXID.format("20034, Fatal, Link 33 LTSSM Fault Up"))
    assert [row.observed[:13] for row in told(both, want)] == ["SXid 20034 x1", "SXid 12028 x1"]
    settled = f"{log}[Nov 30 2026 10:20:00] [INFO] [tid 9] Successfully configured all the available GPUs\n"
    assert told(added(healthy, "fabricmanager-log", settled), want)[0].verdict == "pass"


def test_errors_were_not_seen(healthy: Bundle, want: Expectations) -> None:
    assert [row.verdict for row in told(without(healthy, "dmesg"), want)] == ["unknown"]
    quiet = added(without(healthy, "dmesg"), "fabricmanager-log", "nv-fabricmanager[1]: Starting\n")
    assert [row.verdict for row in told(quiet, want)] == ["unknown"]


def test_the_table_of_switch_errors() -> None:
    assert len(sxids()) > 90
    assert all(row.meaning and (row.remedy.text or row.verdict == "note") for row in sxids().values())


def vllm(started: int) -> str:
    base = "Id={}\nLoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\n"
    end = "ExecMainStatus=0\nLimitMEMLOCK=infinity\nLimitNOFILE=65536\nActiveEnterTimestampMonotonic={}\n"
    return (base + end).format("basic.target", 9) + "\n" + (base + end).format("vllm@main.service", started)


@pytest.mark.parametrize(
    ("restarts", "service", "answer", "verdicts", "words"),
    [
        (0, 60_000_000, "", ["pass"], "runs since 22 s after boot"),
        (0, 20_000_000, "", ["warn"], "older than the fabric manager"),
        (0, 20_000_000, '{"status": 503}', ["warn"], "older than the fabric manager"),
        (0, 20_000_000, '{"status": 200}', ["note"], "older than the fabric manager, answers"),
        (3, 60_000_000, "", ["note"], "systemd started it again 3 times"),
        (3, 20_000_000, "", ["warn", "note"], "older than the fabric manager"),
    ],
)
def test_restarts(
    healthy: Bundle, want: Expectations, restarts: int, service: int, answer: str, verdicts: list[str], words: str
) -> None:
    bundle = edited(healthy, ("fabricmanager-unit", "NRestarts=0", f"NRestarts={restarts}"))
    bundle = added(without(bundle, "vllm-units"), "vllm-units", vllm(service))
    bundle = added(bundle, "vllm-health:8000", answer) if answer else bundle
    rows = told(bundle, want, "fabric.restart")
    assert [row.verdict for row in rows] == verdicts and words in rows[0].observed


@pytest.mark.parametrize(
    ("edit", "verdict"),
    [
        (("fabricmanager-unit", STALE_UNIT, "ActiveEnterTimestampMonotonic=0"), "unknown"),
        (("fabricmanager-unit", "ActiveState=active", "ActiveState=failed"), "skip"),
    ],
)
def test_restarts_need_a_start(
    healthy: Bundle, want: Expectations, edit: tuple[str, str, str], verdict: str
) -> None:
    assert [row.verdict for row in told(edited(healthy, edit), want, "fabric.restart")] == [verdict]


def test_no_unit_is_unknown(healthy: Bundle, want: Expectations) -> None:
    assert told(only(healthy, "pci"), want, "fabric.restart")[0].verdict == "unknown"
