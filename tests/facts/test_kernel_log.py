"""The kernel log: stamps and their times, notices over several lines, order, and two logs of one host."""

from __future__ import annotations

import json
import textwrap

import pytest

from qwenhost.facts.kernel_lines import KERNEL_LOG, kernel_log
from qwenhost.facts.kernel_log import _KINDS, KernelEvents, _needed, kernel_events
from qwenhost.records.bundle import Capture

XID = "NVRM: Xid (PCI:0000:4e:00): {}, pid=77, name=python3, something"


def ok(text: str) -> Capture:
    return Capture("test", "ok", textwrap.dedent(text))


def events(text: str) -> KernelEvents:
    return kernel_events(ok(text))


NOON = 1796083200.0
"""2026-12-01T00:00:00 UTC."""

STAMPS = [
    ("[ 4242.500000] ", "4242.500000", "boot", 4242.5),
    ("[ 4242.500000][ T1234] ", "4242.500000", "boot", 4242.5),
    ("[ 4242.500000] node7 kernel: ", "4242.500000", "boot", 4242.5),
    ("<4>[ 4242.500000] ", "4242.500000", "boot", 4242.5),
    ("4,1234,4242500000,-;", "4242500000", "boot", 4242.5),
    ("[  +0.000316] ", "+0.000316", "", 0.0),
    ("[Dec01 00:00] ", "Dec01 00:00", "", 0.0),
    ("[Tue Dec  1 00:00:00 2026] ", "Dec  1 00:00:00 2026", "local", NOON),
    ("kern  :warn  : [Tue Dec  1 00:00:00 2026] ", "Dec  1 00:00:00 2026", "local", NOON),
    ("kern  :err   : 2026-12-01T01:00:00,250000+01:00 ", "2026-12-01T01:00:00,250000+01:00", "utc", NOON + 0.25),
    ("2026-12-01T00:00:00.123456+0000 node7 kernel: ", "2026-12-01T00:00:00.123456+0000", "utc", NOON + 0.123456),
    ("2026-12-01T01:00:00+0100 node7 kernel: ", "2026-12-01T01:00:00+0100", "utc", NOON),
    ("10.0.0.7: kern: warning: [2026-12-01T00:00:00.5Z]: ", "2026-12-01T00:00:00.5Z", "utc", NOON + 0.5),
    ("Tue 2026-12-01 00:00:00 UTC node7 kernel: ", "2026-12-01 00:00:00", "local", NOON),
    ("1796083200.250000 node7 kernel: ", "1796083200.250000", "utc", NOON + 0.25),
    ("Dec  1 00:00:00 node7 kernel: ", "Dec  1 00:00:00", "syslog", 975628800.0),
    ("> [ 4242.500000] ", "4242.500000", "boot", 4242.5),
    ("1234:[ 4242.500000] ", "4242.500000", "boot", 4242.5),
    ("node7: [ 4242.500000] ", "4242.500000", "boot", 4242.5),
    ("Nov 30 10:00:00 [ 4242.500000] ", "4242.500000", "boot", 4242.5),
    ("/var/log/kern.log:Dec  1 00:00:00 node7 kernel: ", "Dec  1 00:00:00", "syslog", 975628800.0),
    ("Dec  1 00:00:00.500000 node7 kernel: [ 4242.500000] ", "Dec  1 00:00:00.500000", "syslog", 975628800.5),
]


@pytest.mark.parametrize(("stamp", "printed", "clock", "seconds"), STAMPS)
def test_each_stamp_keeps_its_time(stamp: str, printed: str, clock: str, seconds: float) -> None:
    if "+0." not in stamp and "Dec01" not in stamp:
        assert KERNEL_LOG.recognises(f"{stamp}something\n")
    (event,) = events(f"[ 1.0] boot\n{stamp}{XID.format(31)}\n").events
    assert (event.text, event.at, event.clock) == (XID.format(31), printed, clock)
    assert event.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "around",
    [
        "Dez 01 00:00:00 node7 kernel: {}",
        "<4>1 2026-12-01T00:00:00.5+01:00 node7 kernel - - - {}",
        "2026-12-01 00:00:00 node7 kernel: {}",
        '         "msg": "{}"',
        '{{\n\t"_TRANSPORT" : "kernel",\n\t"MESSAGE" : "{}"\n}}',
        "    MESSAGE={}",
        '2026-12-01 00:00:00.118\t{{"message":"{}"}}',
    ],
)
@pytest.mark.parametrize("said", [XID.format(79), XID.format(79).removeprefix("NVRM: ")])
def test_what_the_driver_says_is_read_whatever_a_collector_puts_around_it(around: str, said: str) -> None:
    text = around.format(said) + "\n"
    assert KERNEL_LOG.recognises(text)
    assert [(event.number, event.bus_id) for event in events(text).events] == [(79, "0000:4e:00.0")]


def test_the_stamps_of_a_container_make_no_kernel_log() -> None:
    assert not KERNEL_LOG.recognises("2026-12-01T00:00:00.118233112Z INFO 12-01 00:00:00 [core.py:1] ready\n")
    assert not KERNEL_LOG.recognises("2026-12-01T00:00:00.118233112Z stdout F INFO:     Application startup\n")


def test_the_journal_as_json() -> None:
    rows = [
        {"_TRANSPORT": "kernel", "MESSAGE": XID.format(79), "__REALTIME_TIMESTAMP": "1796083200250000"},
        {"_TRANSPORT": "stdout", "MESSAGE": XID.format(31), "__REALTIME_TIMESTAMP": "1796083200250000"},
        {"_TRANSPORT": "kernel", "MESSAGE": [78, 86], "__REALTIME_TIMESTAMP": "1796083200250000"},
    ]
    log = "".join(f"{json.dumps(row)}\n" for row in rows)
    assert KERNEL_LOG.recognises(log)
    assert [(event.number, event.seconds) for event in events(log).events] == [(79, NOON + 0.25)]


def test_every_kind_can_be_searched_for() -> None:
    for kind, pattern in _KINDS:
        assert all(len(word) > 4 for word in _needed(pattern)) and _needed(pattern), kind


def test_a_notice_takes_the_lines_behind_it() -> None:
    log = """\
        [   12.000000] NVRM: The NVIDIA GPU 0000:4e:00.0 (PCI ID: 10de:20b2)
        [   12.000001] NVRM: installed in this system has fallen off the bus
        [   12.000002] NVRM: and is not responding to commands.
        [   13.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05
        """
    found = events(log).events
    assert [(event.kind, event.bus_id) for event in found] == [("off-bus", "0000:4e:00.0"), ("module-loaded", "")]


@pytest.mark.parametrize("number", ["{3}", ""])
def test_a_pcie_error_that_the_firmware_saw_first(number: str) -> None:
    lines = (
        "Hardware error from APEI Generic Hardware Error Source: 4",
        "event severity: corrected",
        " Error 0, type: corrected",
        "  section_type: PCIe error",
        "  port_type: 4, root port",
        "  device_id: 0000:4c:00.0",
        "  slot: 7",
    )
    log = "".join(f"[   1.00000{at}] {number}[Hardware Error]: {line}\n" for at, line in enumerate(lines))
    (event,) = events(f"{log}[   2.000000] NVRM: done\n").events
    assert (event.kind, event.bus_id) == ("aer", "0000:4c:00.0")
    assert "severity: corrected" in event.text


BOOT = "Linux version 6.8.0-60-generic (builder@host) #1 SMP"


@pytest.mark.parametrize(
    "later", [f"[Tue Dec  1 00:00:09 2026] {BOOT}", "-- Boot 5f1a0c6f2f5d4d0c9a --", "-- Reboot --"]
)
def test_a_boot_settles_what_was_before(later: str) -> None:
    log = f"[Tue Dec  1 00:00:00 2026] {XID.format(79)}\n{later}\n[Tue Dec  1 00:00:10 2026] {XID.format(31)}\n"
    assert [event.number for event in events(log).of("xid")] == [31]


def test_a_log_printed_newest_first_is_read_from_its_end() -> None:
    dated = f"2026-12-01T00:00:09+0000 n kernel: {BOOT}\n2026-12-01T00:00:01+0000 n kernel: {XID.format(79)}\n"
    plain = f"Dec  1 00:00:09 n kernel: {BOOT}\nDec  1 00:00:01 n kernel: {XID.format(79)}\n"
    assert events(dated).of("xid") == events(plain).of("xid") == ()


def test_two_logs_of_one_host_count_a_line_once() -> None:
    ring = events(f"[  10.000000] {XID.format(31)}\n[  11.000000] {XID.format(31)}\n")
    journal = events(
        f"Dec  1 00:00:00 n kernel: {XID.format(31)}\nDec  1 00:00:01 n kernel: {XID.format(31)}\n"
        f"Dec  1 00:00:02 n kernel: {XID.format(31)}\nDec  1 00:00:02 n kernel: {XID.format(13)}\n"
    )
    assert [event.number for event in ring.merge(journal).of("xid")] == [31, 31, 31, 13]


def test_a_boot_in_another_log_settles_what_was_before() -> None:
    old = events(f"[Mon Nov 30 10:00:00 2026] {XID.format(79)}\n")
    new = events(f"[Tue Dec  1 00:00:00 2026] {BOOT}\n[Tue Dec  1 00:10:00 2026] {XID.format(31)}\n")
    assert [event.number for event in old.merge(new).of("xid")] == [31]
    assert [event.number for event in new.merge(old).of("xid")] == [31]


def test_what_follows_a_message() -> None:
    log = kernel_log(ok("[ 1.0] one marker\n[ 2.0] two\n[ 3.0] three\n"))
    (message,) = log.messages(("marker",))
    assert [line.text for line in log.after(message, 5)] == ["two", "three"]
