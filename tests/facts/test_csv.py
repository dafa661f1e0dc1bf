"""Answers to nvidia-smi's selective queries, with and without units; the values are made up."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from qwenhost.facts.gpu_processes import processes_from_csv
from qwenhost.facts.gpus import CSV
from qwenhost.facts.smi.csv import gpus_from_csv
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


def ok(text: str) -> Capture:
    return Capture("test", "ok", text)


UNITS = """\
index, name, pci.bus_id, pstate, temperature.gpu, memory.used [MiB], power.draw [W], power.limit [W]
0, NVIDIA A100-SXM4-80GB, 00000000:07:00.0, P0, 31, 12 MiB, 62.45 W, 400.00 W
1, NVIDIA A100-SXM4-80GB, 00000000:0B:00.0, P0, 32, [N/A], [Not Supported], 400.00 W
"""
PLAIN = UNITS.replace(" [MiB]", "").replace(" [W]", "").replace(" MiB", "").replace(" W", "")


@pytest.mark.parametrize("text", [UNITS, PLAIN, UNITS + PLAIN], ids=["units", "nounits", "sampled twice"])
def test_values(text: str) -> None:
    assert CSV.recognises(text)
    one, two = gpus_from_csv(ok(text)).gpus
    assert (one.index, one.bus_id, one.performance_state, one.temperature_celsius) == (0, "0000:07:00.0", 0, 31)
    assert (one.memory_used_mib, one.power_usage_watts, one.power_limit_watts) == (12, 62, 400)
    assert (two.memory_used_mib, two.power_usage_watts, two.power_limit_watts) == (None, None, 400)


@pytest.mark.parametrize(
    ("column", "cell", "active"),
    [
        (
            "clocks_throttle_reasons.active",
            "0x0000000000000048",
            {"hardware slowdown", "hardware thermal slowdown"},
        ),
        ("clocks_event_reasons.active", "0x0000000000000001", {"idle"}),
        ("clocks_event_reasons.sw_power_cap", "Active", {"software power cap"}),
        ("clocks_throttle_reasons.hw_power_brake_slowdown", "Not Active", set()),
        ("clocks_event_reasons.supported", "0x00000000000001FF", None),
    ],
)
def test_reasons_as_bits_and_as_columns(column: str, cell: str, active: set[str] | None) -> None:
    (gpu,) = gpus_from_csv(ok(f"index, pci.bus_id, {column}\n0, 00000000:07:00.0, {cell}\n")).gpus
    assert gpu.slowdowns == active


def test_remapped_rows() -> None:
    text = """\
gpu_bus_id, gpu_uuid, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure
00000000:07:00.0, GPU-a, 3, Yes, No
"""
    (gpu,) = gpus_from_csv(ok(text)).gpus
    assert (gpu.bus_id, gpu.remapped_uncorrectable, gpu.remap_pending, gpu.remap_failure) == (
        "0000:07:00.0",
        3,
        True,
        False,
    )


def test_a_lost_gpu() -> None:
    rows = "index, pci.bus_id, pstate, temperature.gpu\n3, 00000000:4C:00.0, [GPU is lost], [GPU is lost]\n"
    (gpu,) = gpus_from_csv(ok(rows)).gpus
    assert (gpu.bus_id, gpu.index, gpu.lost) == ("0000:4c:00.0", 3, "[GPU is lost]")


def test_rows_that_tell_no_gpu_apart_are_refused() -> None:
    for text in ("temperature.gpu, utilization.gpu [%]\n31, 0 %\n", "index, temperature.gpu\n", "0, 31\n"):
        with pytest.raises(Unparsable):
            gpus_from_csv(ok(text))


APPS = [
    "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-a, 4711, /opt/train/bin/python3, 40112 MiB\n",
    "gpu_uuid, pid, name, used_memory\nGPU-a, 4711, /opt/train/bin/python3, 40112\n",
]


@pytest.mark.parametrize("text", APPS)
def test_processes(text: str) -> None:
    assert CSV.recognises(text)
    (user,) = processes_from_csv(ok(text)).gpus
    assert [astuple(each) for each in user.processes or ()] == [
        (4711, "/opt/train/bin/python3", 40112, None, None)
    ]
    assert user.uuid == "GPU-a"
    with pytest.raises(Unparsable):
        gpus_from_csv(ok(text))


@pytest.mark.parametrize("text", ["name, age, town\n", "index, name\n", "Dear all, the memory. is full\n"])
def test_other_tables_are_not_taken_for_it(text: str) -> None:
    assert not CSV.recognises(text)
