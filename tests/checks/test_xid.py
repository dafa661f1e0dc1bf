"""gpu.xid: repeats, consequences, states that decide, and where the GPU sits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.driver_tables import recovery, xids
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding
from tests.checks.conftest import added, logged, of, only, without

XID = "NVRM: Xid (PCI:0000:4c:00): {}, pid={}, name={}, {}"
OTHER = XID.replace("4c", "88")


def told(bundle: Bundle, want: Expectations) -> list[Finding]:
    return of(examine(bundle, want), "gpu.xid")


def only_log(bundle: Bundle) -> Bundle:
    return only(bundle, "dmesg")


def test_repeats_are_told_once_with_first_and_last_time(healthy: Bundle, want: Expectations) -> None:
    (row,) = told(logged(healthy, *[XID.format(31, n, "python3", f"Ch {n}, MMU Fault") for n in range(30)]), want)
    assert (row.verdict, row.subject) == ("warn", "gpu3 0000:4c:00.0")
    assert row.observed.startswith("Xid 31 x30: GPU page fault")
    assert "program python3, first at 4242.000000, last at 4242.000029" in row.observed


def test_programs_are_named(healthy: Bundle, want: Expectations) -> None:
    names = ("train", "VLLM::Worker_TP0", "a", "b", "<unknown>")
    (row,) = told(logged(healthy, *[XID.format(13, 7, name, "Graphics Exception") for name in names]), want)
    assert "program train, VLLM::Worker_TP0, a and 1 more" in row.observed


CLEAN_UP = XID.format(45, 7, "VLLM::Worker", "channel 0x00000008")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ((), ""),
        ((XID.format(74, 7, "x", "NVLink: fatal error detected on link 3(0x0)"),), "a consequence of Xid 74"),
        ((OTHER.format(48, 7, "x", "DBE"),), "a consequence of Xid 48 of 0000:88:00.0"),
        ((OTHER.format(13, 7, "x", "Graphics Exception"),), ""),
    ],
    ids=["alone", "own", "of another GPU", "a program's fault elsewhere"],
)
def test_a_clean_up_is_no_story_of_its_own(
    healthy: Bundle, want: Expectations, cause: tuple[str, ...], words: str
) -> None:
    row = next(f for f in told(logged(healthy, CLEAN_UP, *cause), want) if f.observed.startswith("Xid 45"))
    assert row.verdict == "note"
    assert ("a consequence" in row.observed) == bool(words) and words in row.observed
    assert ("restart the fabric manager" in row.remedy.text) != bool(words)


@pytest.mark.parametrize(
    ("number", "state", "words"),
    [
        (63, {"pending": 1}, "still pending"),
        (63, {"pending": 0}, "no row waits any more"),
        (64, {"failure": 1}, "the driver confirms it"),
        (64, {"failure": 0}, "the driver's flag is not set"),
    ],
)
def test_the_state_of_the_rows_decides(
    healthy: Bundle, want: Expectations, number: int, state: dict[str, int], words: str
) -> None:
    answer = json.loads(healthy.of("nvml")[0].text)
    answer["devices"][3]["remapped_rows"] |= state
    bundle = added(without(healthy, "nvml", "nvidia-smi-q"), "nvml", json.dumps(answer))
    (row,) = told(logged(bundle, XID.format(number, 7, "x", "Row Remapper: a row")), want)
    assert row.verdict == "note" and words in row.observed


@pytest.mark.parametrize(
    "line",
    ["NVLink: fatal error detected on link 8(0x0, 0x10000)", "NVLINK: RLW Fatal XC1 i0 Link 08 (0x08)"],
)
def test_links_are_named(healthy: Bundle, want: Expectations, line: str) -> None:
    (row,) = told(logged(healthy, XID.format(74, 7, "x", line)), want)
    assert "NVLink error, link 8, see nvlink.errors" in row.observed


@pytest.mark.parametrize(
    ("action", "kind", "words"),
    [
        ("0x1 (GPU Reset Required)", "hand", "nvidia-smi -r -i 3"),
        ("0x1 (PF FLR)", "hand", "nvidia-smi -r -i 3"),
        ("0x2 (Node Reboot Required)", "reboot", "reboot"),
        ("0x2 (OS Reboot)", "reboot", "reboot"),
        ("0x3 (Drain P2P)", "hand", "NVLink"),
        ("0x4 (Drain and Reset)", "hand", "let its programs end"),
        ("0x9 (Dance)", "hand", "Do what the line names"),
    ],
)
def test_what_xid_154_asks_for(healthy: Bundle, want: Expectations, action: str, kind: str, words: str) -> None:
    line = f"NVRM: Xid (PCI:0000:4c:00): 154, GPU recovery action changed from 0x0 (None) to {action}"
    (row,) = told(logged(healthy, line), want)
    assert row.remedy.kind == kind and words in row.remedy.text
    assert (recovery(line) is None) == ("Dance" in action)


SLOTS = {"7-1": "4c", "9": "07"}


def test_uuid_and_slot_where_the_driver_no_longer_knows_it(healthy: Bundle, want: Expectations) -> None:
    bundle = logged(
        only_log(healthy),
        "NVRM: GPU at PCI:0000:4c:00: GPU-1234abcd-0000-4000-8000-000000000000",
        XID.format(46, 7, "x", "stopped"),
    )
    slots = json.dumps({f"/sys/bus/pci/slots/{name}/address": f"0000:{bus}:00" for name, bus in SLOTS.items()})
    (row,) = told(added(bundle, "pci-slots", slots), want)
    assert (row.verdict, row.subject) == ("fail", "gpu 0000:4c:00.0")
    assert row.observed.endswith("GPU-1234abcd, slot 7-1")
    assert "-i 0000:4c:00.0" in row.remedy.text


def test_slots_of_lspci(healthy: Bundle, want: Expectations) -> None:
    lspci = (
        "0000:4c:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b2] (rev a1)\n"
        "\tSubsystem: NVIDIA Corporation Device [10de:1463]\n\tPhysical Slot: 12\n"
    )
    bundle = replace(only_log(healthy), captures=(*only_log(healthy).captures, Capture("lspci", "ok", lspci)))
    (row,) = told(logged(bundle, XID.format(62, 7, "x", "halt")), want)
    assert row.observed.endswith("slot 12")


def test_no_log_is_unknown(healthy: Bundle, want: Expectations) -> None:
    (row,) = told(only(healthy, "nvml"), want)
    assert row.verdict == "unknown"


def test_an_xid_of_a_later_driver_is_worth_a_warning(healthy: Bundle, want: Expectations) -> None:
    (row,) = told(logged(healthy, XID.format(999, 7, "x", "new")), want)
    assert row.verdict == "warn" and "not in this version's table" in row.observed


def test_the_table_is_whole() -> None:
    assert set(xids()) == set(range(1, 173))
    assert all(row.meaning for row in xids().values())
