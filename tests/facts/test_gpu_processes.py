"""Processes on GPUs, in every form of the driver's tools."""

from __future__ import annotations

import json
from dataclasses import astuple

import pytest

from qwenhost.facts.gpu_processes import (
    GpuProcess,
    GpuProcesses,
    GpuUsers,
    processes_from_nvml,
    processes_from_query,
    processes_from_table,
    processes_from_xml,
)
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

TRAINER = (4711, "/opt/train/bin/python3", 40112, "C", None)


def ok(text: str) -> Capture:
    return Capture("test", "ok", text)


def device(index: int, processes: object) -> dict[str, object]:
    return {
        "index": index,
        "bus_id": f"00000000:{index + 7:02X}:00.0",
        "uuid": f"GPU-{index}",
        "processes": processes,
    }


def test_nvml() -> None:
    users = [
        {"pid": 4711, "used_bytes": 40112 << 20, "name": "/opt/train/bin/python3", "cgroup": "/user.slice"},
        {
            "pid": 4712,
            "used_bytes": None,
            "name": {"error": "NOT_FOUND"},
            "cgroup": {"error": "FileNotFoundError"},
        },
    ]
    answer = {
        "init": "SUCCESS",
        "devices": [device(0, users), device(1, []), device(2, {"error": "NO_PERMISSION"})],
    }
    busy, idle, hidden = processes_from_nvml(ok(json.dumps(answer))).gpus
    assert [astuple(each) for each in busy.processes or ()] == [
        (*TRAINER[:4], "/user.slice"),
        (4712, None, None, "C", None),
    ]
    assert (busy.bus_id, busy.uuid, idle.processes, hidden.processes) == ("0000:07:00.0", "GPU-0", (), None)


QUERY = """\
==============NVSMI LOG==============
Driver Version                            : {version}
Attached GPUs                             : 4
GPU 00000000:07:00.0
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 4711
            Type                          : C
            Name                          : /opt/train/bin/python3
            {used}               : 40112 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 4712
            Type                          : G
            Name                          : [Not Found]
            {used}               : N/A
GPU 00000000:08:00.0
    Processes                             : None
GPU 00000000:09:00.0
    Processes                             : N/A
GPU 00000000:0A:00.0
    Fan Speed                             : N/A
"""


@pytest.mark.parametrize(("version", "used"), [("470.57.02", "Used GPU Memory"), ("610.43.02", "Used Memory")])
def test_query(version: str, used: str) -> None:
    busy, idle, hidden, cut = processes_from_query(ok(QUERY.format(version=version, used=used))).gpus
    assert [astuple(each) for each in busy.processes or ()] == [TRAINER, (4712, None, None, "G", None)]
    assert [each.pid for each in busy.computing or ()] == [4711]
    assert (busy.index, idle.processes, hidden.processes, cut.processes) == (0, (), None, None)


def test_xml() -> None:
    text = """<?xml version="1.0" ?><nvidia_smi_log><attached_gpus>3</attached_gpus>
        <gpu id="00000000:07:00.0"><uuid>GPU-0</uuid><processes><process_info>
        <pid>4711</pid><type>C</type><process_name>/opt/train/bin/python3</process_name>
        <used_memory>40112 MiB</used_memory></process_info></processes></gpu>
        <gpu id="00000000:08:00.0"><processes /></gpu>
        <gpu id="00000000:09:00.0"><processes>N/A</processes></gpu></nvidia_smi_log>"""
    busy, idle, hidden = processes_from_xml(ok(text)).gpus
    assert [astuple(each) for each in busy.processes or ()] == [TRAINER]
    assert (busy.uuid, idle.processes, hidden.processes) == ("GPU-0", (), None)


OLD = """\
| NVIDIA-SMI 440.33.01    Driver Version: 440.33.01    CUDA Version: 10.2     |
|   0  Tesla V100-SXM2...  On   | 00000000:07:00.0 Off |                    0 |
| N/A   40C    P0    63W / 300W |  15861MiB / 16160MiB |      0%      Default |
|   1  Tesla V100-SXM2...  On   | 00000000:08:00.0 Off |                    0 |
| N/A   40C    P0    63W / 300W |      0MiB / 16160MiB |      0%      Default |
+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     78799      C   python                                     15851MiB |
+-----------------------------------------------------------------------------+
"""
NEW = """\
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                   On |
| N/A   31C    P0             63W /  400W |   15861MiB /  81920MiB |     N/A      Default |
|                                         |                        |              Enabled |
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:08:00.0 Off |                   On |
| N/A   31C    P0             63W /  400W |       0MiB /  81920MiB |     N/A      Default |
|                                         |                        |              Enabled |
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0    1    0            78799      C   python                                15851MiB |
"""


@pytest.mark.parametrize("text", [OLD, NEW])
def test_tables_with_and_without_gpu_instances(text: str) -> None:
    busy, idle = processes_from_table(ok(text)).gpus
    assert [astuple(each) for each in busy.processes or ()] == [(78799, "python", 15851, "C", None)]
    assert (busy.bus_id, busy.index, idle.processes) == ("0000:07:00.0", 0, ())


def test_a_table_that_was_cut_tells_nothing_of_processes() -> None:
    with pytest.raises(Unparsable):
        processes_from_table(ok(NEW.split("| Processes:")[0]))


def test_names_are_filled_from_the_other_listing() -> None:
    nvml = GpuProcesses((GpuUsers((GpuProcess(7, None, 10, "C"),), 0, "0000:07:00.0"), GpuUsers(None, 1)))
    table = GpuProcesses((GpuUsers((GpuProcess(7, "python"), GpuProcess(8, "Xorg", 4, "G")), 0, "0000:07:00.0"),))
    one, two = nvml.merge(table).gpus
    assert (one.processes, two.processes) == ((GpuProcess(7, "python", 10, "C"),), None)
