"""Faults of single values of a GPU, and look-alikes that are none; their forms are tested with the facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations, Serving, VllmInstance
from tests.checks.conftest import added, edited, of, only, without
from tests.checks.test_gpu_rules import nvml

Verdicts = Callable[..., dict[str, str]]
Device = dict[str, Any]

SOURCES = ("nvidia-smi-q", "nvidia-smi")

SERVING = Serving("0.32.0", "vllm", "qwen", "/models/qwen", (VllmInstance("qwen", 8000, gpus=(0, 1, 2, 3)),))


def process(name: object, cgroup: object = "/user.slice", mib: int = 40000) -> dict[str, Any]:
    return {"pid": 4711, "used_bytes": mib << 20, "name": name, "cgroup": cgroup}


FAULTS = [
    pytest.param({"ecc_mode_current": 0, "ecc_mode_pending": 0}, "memory.ecc-mode", "warn", id="ecc off"),
    pytest.param({"ecc_mode_pending": 0}, "memory.ecc-mode", "note", id="ecc changes with the next reset"),
    pytest.param({"row_remapper_banks": {"low": 0, "none": 2}}, "memory.row-remap-banks", "warn", id="no spares"),
    pytest.param(
        {"remapped_rows": {"pending": 1, "failure": 0}}, "memory.row-remap-pending", "warn", id="pending"
    ),
    pytest.param({"remapped_rows": {"pending": 0, "failure": 1}}, "memory.row-remap-failure", "fail", id="failed"),
    pytest.param({"row_remapper_banks": {"low": 3, "none": 0}}, "memory.row-remap-banks", "note", id="few spares"),
    pytest.param({"sram_errors": {"threshold_exceeded": 1}}, "memory.sram-threshold", "fail", id="sram"),
    pytest.param(
        {"ecc_uncorrected_volatile": 1, "ecc_uncorrected_aggregate": 4}, "memory.uncorrected-ecc", "fail", id="ecc"
    ),
    pytest.param({"ecc_uncorrected_aggregate": 4}, "memory.uncorrected-ecc", "note", id="errors of earlier loads"),
    pytest.param({"temperature_gpu_celsius": 81}, "thermal.temperature", "note", id="warm"),
    pytest.param({"temperature_gpu_celsius": 86}, "thermal.temperature", "warn", id="above operating"),
    pytest.param({"temperature_gpu_celsius": 90}, "thermal.temperature", "fail", id="above slowdown"),
    pytest.param({"power_limit_enforced_milliwatts": 300000}, "power.limit", "warn", id="lowered limit"),
    pytest.param(
        {"power_limit_enforced_milliwatts": 300000, "virtualization_mode": 1}, "power.limit", "note", id="in a VM"
    ),
    pytest.param(
        {"clocks_event_reasons": 4, "power_usage_milliwatts": 395000, "utilization_gpu_percent": 99},
        "power.capping",
        "note",
        id="at its limit",
    ),
    pytest.param(
        {"clocks_event_reasons": 4, "power_usage_milliwatts": 240000, "utilization_gpu_percent": 99},
        "power.capping",
        "warn",
        id="held from outside",
    ),
    pytest.param({"inforom_valid": {"error": "CORRUPTED_INFOROM"}}, "firmware.inforom", "warn", id="inforom"),
    pytest.param({"clock_application_graphics_mhz": 900}, "gpu.clocks", "note", id="lowered clocks"),
    pytest.param(
        {"clock_graphics_mhz": 900, "clocks_event_reasons": 2, "utilization_gpu_percent": 97},
        "gpu.clocks",
        "warn",
        id="locked clocks at work",
    ),
    pytest.param({"pcie_replay_counter": 2_000_000}, "pcie.replay", "warn", id="64 replays a minute since boot"),
    pytest.param({"nvlink_errors": {"3": {"replay": 2}}}, "nvlink.errors", "note", id="two replays"),
    pytest.param({"nvlink_errors": {"3": {"recovery": 1}}}, "nvlink.errors", "warn", id="a recovery"),
    pytest.param({"nvlink_crc_flit_errors": 8000}, "nvlink.errors", "warn", id="many crc errors"),
    pytest.param({"processes": [process({"error": "NOT_FOUND"})]}, "gpu.processes", "note", id="no such process"),
    pytest.param({"memory_used_bytes": 30 << 30}, "gpu.processes", "note", id="memory that nobody has"),
    pytest.param({"processes": {"error": "NO_PERMISSION"}}, "gpu.processes", "unknown", id="hidden"),
]


@pytest.mark.parametrize(("fields", "check", "verdict"), FAULTS)
def test_one_gpu(healthy: Bundle, verdicts: Verdicts, fields: Device, check: str, verdict: str) -> None:
    bundle = without(nvml(healthy, lambda device: device.update(fields), 3), *SOURCES)
    assert verdicts(bundle)[check] == verdict


SOUND = [
    pytest.param({"pcie_replay_counter": 120}, "pcie.replay", id="some replays in weeks"),
    pytest.param({"processes": [process("/usr/bin/python3")]}, "gpu.processes", id="somebody, nothing declared"),
    pytest.param(
        {"clock_application_graphics_mhz": {"error": "NOT_SUPPORTED"}}, "gpu.clocks", id="clocks no longer told"
    ),
    pytest.param(
        {"sram_errors": {"error": "FUNCTION_NOT_FOUND"}}, "memory.sram-threshold", id="driver before 550"
    ),
    pytest.param({"inforom_valid": {"error": "NOT_SUPPORTED"}}, "firmware.inforom", id="inforom not checked"),
    pytest.param({"remapped_rows": {"error": "NOT_SUPPORTED"}}, "memory.row-remap-banks", id="no spare rows"),
    pytest.param(
        {"clocks_event_reasons": 4 | 1, "power_usage_milliwatts": 62000}, "power.capping", id="cap, idle"
    ),
    pytest.param(
        {"ecc_mode_current": {"error": "NOT_SUPPORTED"}, "ecc_mode_pending": {"error": "NOT_SUPPORTED"}},
        "memory.ecc-mode",
        id="no ecc",
    ),
]


@pytest.mark.parametrize(("fields", "check"), SOUND)
def test_no_alarm(healthy: Bundle, verdicts: Verdicts, fields: Device, check: str) -> None:
    bundle = without(nvml(healthy, lambda device: device.update(fields), 3), "nvidia-smi-q")
    assert check not in verdicts(bundle)


def test_ecc_that_was_declared_off(healthy: Bundle, verdicts: Verdicts, want: Expectations) -> None:
    off = nvml(healthy, lambda device: device.update(ecc_mode_current=0, ecc_mode_pending=0))
    assert "memory.ecc-mode" not in verdicts(without(off, *SOURCES), replace(want, ecc=False))
    assert verdicts(healthy, replace(want, ecc=False))["memory.ecc-mode"] == "warn"
    assert "memory.ecc-mode" not in verdicts(without(off, *SOURCES), replace(want, sku=skus()["rtx-a6000"]))
    assert verdicts(without(off, *SOURCES), replace(want, sku=None))["memory.ecc-mode"] == "note"


SERVICE = "/system.slice/system-vllm.slice/vllm@qwen.service"

USERS = [
    pytest.param([process("/opt/vllm/bin/python3", SERVICE)], None, id="the service"),
    pytest.param([process("VLLM::Worker_TP1", None)], None, id="named by vLLM"),
    pytest.param([process("VLLM::Worker_TP1", "/user.slice")], "warn", id="a vLLM that somebody started by hand"),
    pytest.param([process("/usr/bin/python3")], "warn", id="somebody else"),
    pytest.param([process({"error": "NOT_FOUND"}, {"error": "FileNotFoundError"})], "warn", id="a dead process"),
]


@pytest.mark.parametrize(("users", "verdict"), USERS)
def test_a_gpu_that_is_to_serve(
    healthy: Bundle, verdicts: Verdicts, want: Expectations, users: list[Device], verdict: str | None
) -> None:
    serving = replace(want, serving=SERVING)
    used = without(nvml(healthy, lambda device: device.update(processes=users), 2), *SOURCES)
    assert verdicts(used, serving).get("gpu.processes") == verdict
    elsewhere = without(nvml(healthy, lambda device: device.update(processes=users), 7), *SOURCES)
    assert verdicts(elsewhere, serving).get("gpu.processes") in (None, "note")
    held = nvml(healthy, lambda device: device.update(memory_used_bytes=30 << 30), 2)
    assert verdicts(without(held, *SOURCES), serving)["gpu.processes"] == "warn"


def test_processes_of_the_table(healthy: Bundle, verdicts: Verdicts, want: Expectations) -> None:
    row = "|    1   N/A  N/A            4711      C   /usr/bin/python3                         40000MiB |"
    nobody = "|  No running processes found                                                             |"
    bundle = edited(only(healthy, "nvidia-smi"), ("nvidia-smi", nobody, row))
    assert verdicts(bundle, replace(want, serving=SERVING))["gpu.processes"] == "warn"
    assert "gpu.processes" not in verdicts(only(healthy, "nvidia-smi"), replace(want, serving=SERVING))


def test_a_corrupt_inforom_by_its_warning(healthy: Bundle, want: Expectations) -> None:
    line = "WARNING: infoROM is corrupted at gpu 0000:48:00.0\n"
    bundle = without(healthy, "nvml", "nvidia-smi-L")
    names = healthy.of("nvidia-smi-L")[0].text
    for findings in (
        examine(added(bundle, "nvidia-smi-L", names + line), want),
        examine(added(only(healthy), "nvidia-smi-L", line + names), want),
    ):
        bad = [f for f in of(findings, "firmware.inforom") if f.verdict == "warn"]
        assert [f.subject.split()[-1] for f in bad] == ["0000:48:00.0"]
        assert bad[0].evidence == line.strip()


def test_boards_that_tell_the_degrees_left(healthy: Bundle, verdicts: Verdicts) -> None:
    def hopper(left: int) -> Bundle:
        none = {"error": "NOT_SUPPORTED"}
        fields = {
            "temperature_threshold_gpu_max_celsius": none,
            "temperature_threshold_slowdown_celsius": none,
            "temperature_threshold_memory_max_celsius": none,
            "temperature_margin_celsius": left,
            "temperature_tlimit_gpu_max_celsius": 0,
            "temperature_tlimit_slowdown_celsius": -2,
        }
        return without(nvml(healthy, lambda device: device.update(fields)), *SOURCES)

    h100 = Expectations(sku=skus()["h100-sxm5"])
    found = [verdicts(hopper(left), h100).get("thermal.temperature") for left in (40, 4, 0, -2)]
    assert found == [None, "note", "warn", "fail"]
    assert "memory.hbm-temperature" not in verdicts(hopper(40), h100)


def test_link_counters_that_somebody_sent(healthy: Bundle, verdicts: Verdicts) -> None:
    text = "GPU 4: NVIDIA A100-SXM4-80GB (UUID: GPU-a)\n\t Link 7: Replay Errors: {}\n\t Link 7: CRC Errors: 0\n"
    for count, verdict in ((0, None), (2, "note"), (40, "warn")):
        bundle = added(without(healthy, "nvml", "dmesg"), "nvidia-smi-nvlink-errors", text.format(count))
        assert verdicts(bundle).get("nvlink.errors") == verdict


def test_replays_need_time_to_be_a_rate(healthy: Bundle, verdicts: Verdicts) -> None:
    many = nvml(healthy, lambda device: device.update(pcie_replay_counter=200), 3)
    assert verdicts(without(many, "uptime"))["pcie.replay"] == "note"
    assert "pcie.replay" not in verdicts(many)
    few = nvml(healthy, lambda device: device.update(pcie_replay_counter=120), 3)
    assert "pcie.replay" not in verdicts(without(few, "uptime"))
    just_up = added(without(many, "uptime"), "uptime", "120.00 900.00\n")
    assert verdicts(just_up)["pcie.replay"] == "note"


@pytest.mark.parametrize(
    ("line", "check", "verdict"),
    [
        ("Channel Repair Pending", "memory.row-remap-pending", "warn"),
        ("TPC Repair Pending", "memory.row-remap-pending", "warn"),
        ("Unrepairable Memory", "memory.row-remap-failure", "fail"),
    ],
)
def test_repairs_that_newer_drivers_tell(
    healthy: Bundle, verdicts: Verdicts, line: str, check: str, verdict: str
) -> None:
    text = healthy.of("nvidia-smi-q")[0].text
    for answer, expected in (("No", None), ("Yes", verdict)):
        told = text.replace("    Retired Pages\n", f"        {line}    : {answer}\n    Retired Pages\n")
        assert told != text
        assert verdicts(added(without(healthy, "nvidia-smi-q"), "nvidia-smi-q", told)).get(check) == expected


RETIRED = """\
Attached GPUs : 1
GPU 00000000:4E:00.0
    Product Name                  : Tesla V100-SXM2-32GB
    Performance State             : P0
    Ecc Mode
        Current                   : Enabled
        Pending                   : Enabled
    Retired Pages
        Single Bit ECC            : {}
        Double Bit ECC            : {}
        Pending Page Blacklist    : {}
    Remapped Rows                 : N/A
"""


@pytest.mark.parametrize(
    ("corrected", "uncorrected", "pending", "verdict"),
    [("0", "0", "No", None), ("12", "3", "No", None), ("12", "3", "Yes", "warn"), ("50", "13", "No", "warn")],
)
def test_pages_of_boards_before_ampere(
    healthy: Bundle, verdicts: Verdicts, corrected: str, uncorrected: str, pending: str, verdict: str | None
) -> None:
    v100 = Expectations(sku=skus()["v100-sxm2-32gb"])
    bundle = added(only(healthy), "nvidia-smi-q", RETIRED.format(corrected, uncorrected, pending))
    found = verdicts(bundle, v100)
    assert found.get("memory.retired-pages") == verdict
    assert not {"memory.row-remap-pending", "memory.row-remap-failure", "memory.row-remap-banks"} & set(found)


def test_pages_by_nvml(healthy: Bundle, verdicts: Verdicts) -> None:
    fields = {
        "remapped_rows": {"error": "NOT_SUPPORTED"},
        "retired_pages_corrected": 2,
        "retired_pages_uncorrected": 1,
        "retired_pages_pending": 1,
    }
    bundle = without(nvml(healthy, lambda device: device.update(fields)), *SOURCES)
    assert verdicts(bundle, Expectations(sku=skus()["t4"]))["memory.retired-pages"] == "warn"


def test_mig_without_instances(healthy: Bundle, verdicts: Verdicts) -> None:
    on = nvml(healthy, lambda device: device.update(mig_mode_current=1, mig_mode_pending=1, mig_devices=[]), 3)
    bundle = without(on, *SOURCES, "nvidia-smi-L")
    assert verdicts(bundle)["mig.instances"] == "warn"
    made = [{"index": 0, "uuid": "MIG-1", "name": "MIG 7g.80gb", "gi_id": 0, "ci_id": 0}]
    used = nvml(healthy, lambda device: device.update(mig_mode_current=1, mig_mode_pending=1, mig_devices=made), 3)
    assert "mig.instances" not in verdicts(without(used, *SOURCES, "nvidia-smi-L"))


FABRIC = """\
Attached GPUs : 1
GPU 00000000:4E:00.0
    Product Name                  : NVIDIA H100 80GB HBM3
    Fabric
        State                     : {}
        Status                    : {}
"""


@pytest.mark.parametrize(
    ("state", "status", "verdict"),
    [
        ("Completed", "Success", None),
        ("Completed", "N/A", None),
        ("Completed", "Insufficient Resources", "warn"),
        ("In Progress", "N/A", "warn"),
        ("N/A", "N/A", None),
    ],
)
def test_fabric_state(healthy: Bundle, verdicts: Verdicts, state: str, status: str, verdict: str | None) -> None:
    bundle = added(only(healthy), "nvidia-smi-q", FABRIC.format(state, status))
    assert verdicts(bundle, Expectations(sku=skus()["h100-sxm5"])).get("fabric.state") == verdict


def h200(**fields: Any) -> Bundle:
    """Return one H200 of a virtual machine, as NVML tells it; whatever is not told is not supported."""
    none = {"error": "NOT_SUPPORTED"}
    device = {
        "index": 0, "name": "NVIDIA H200", "bus_id": "00000000:04:00.0", "pci_device_id": 0x233510DE,
        "vbios_version": "96.00.DA.00.16", "persistence_mode": 1,
        "performance_state": 0, "clocks_event_reasons": 1,
        "memory_total_bytes": 143771 << 20, "memory_used_bytes": 623 << 20, "memory_reserved_bytes": 623 << 20,
        "bar1_total_bytes": 262144 << 20, "power_limit_enforced_milliwatts": 700000,
        "power_limit_default_milliwatts": 700000, "power_usage_milliwatts": 83000,
        "temperature_gpu_celsius": 38, "temperature_memory_celsius": 38, "temperature_margin_celsius": 49,
        "temperature_tlimit_gpu_max_celsius": 0, "temperature_tlimit_slowdown_celsius": -2,
        "ecc_mode_current": 1, "ecc_mode_pending": none, "mig_mode_current": 0, "mig_mode_pending": 0,
        "ecc_uncorrected_volatile": 0, "ecc_uncorrected_aggregate": 0, "pcie_replay_counter": 0,
        "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": 0, "failure": 0},
        "row_remapper_banks": {"max": 3072, "high": 0, "partial": 0, "low": 0, "none": 0},
        "sram_errors": {"threshold_exceeded": 0}, "inforom_valid": none, "clock_graphics_mhz": 345,
        "clock_application_graphics_mhz": none, "clock_default_application_graphics_mhz": none,
        "processes": [], "nvlink": [], "nvlink_replay_errors": none, "mig_devices": [],
        **fields,
    }  # fmt: skip
    answer = {"init": "SUCCESS", "system": {"driver_version": "580.173.02"}, "devices": [device]}
    names = added(Bundle("vm", ()), "nvidia-smi-L", "GPU 0: NVIDIA H200 (UUID: GPU-a)\n")
    return added(names, "nvml", json.dumps(answer))


OURS = (
    "memory.",
    "thermal.",
    "power.",
    "mig.",
    "firmware.",
    "gpu.clocks",
    "gpu.processes",
    "gpu.fan",
    "nvlink.links",
)


def test_an_h200_of_a_virtual_machine_is_no_alarm(verdicts: Verdicts) -> None:
    found = verdicts(h200(), Expectations(sku=skus()["h200-sxm5"]))
    assert {check: verdict for check, verdict in found.items() if check.startswith(OURS)} == {}
