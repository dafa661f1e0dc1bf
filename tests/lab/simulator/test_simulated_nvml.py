from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qwenhost.lab.simulator import faults

Nvml = Callable[[Path, str], str]

CREATE = """
p.nvmlDeviceSetMigMode(h, 1)
made = []
for profile in {profiles}:
    try:
        info = p.nvmlGpuInstanceGetInfo(p.nvmlDeviceCreateGpuInstance(h, profile))
        made.append((info.id, info.placement.start))
    except p.NVMLError as error:
        made.append(error.value)
print(made)
"""
REFUSED = 23


def test_identity(healthy: Path, nvml: Nvml) -> None:
    told = nvml(
        healthy,
        "print(p.nvmlSystemGetDriverVersion(), p.nvmlSystemGetCudaDriverVersion(), p.nvmlDeviceGetCount())",
    )
    assert told == "580.95.05 13000 8"
    told = nvml(
        healthy, "i = p.nvmlDeviceGetPciInfo(h); print(i.busId, hex(i.pciDeviceId), hex(i.pciSubSystemId))"
    )
    assert told == "00000000:07:00.0 0x20b210de 0x146310de"


@pytest.mark.parametrize(
    ("profiles", "made"),
    [
        ([9, 9], [(2, 4), (1, 0)]),
        ([9, 19, 14, 19], [(2, 4), (7, 0), (4, 2), (8, 1)]),
        ([19, 19, 14, 9], [(13, 6), (11, 4), (3, 0), REFUSED]),
        ([5, 9], [(1, 0), (2, 4)]),
        ([0, 19], [(0, 0), REFUSED]),
        ([20, 20], [(13, 6), REFUSED]),
        ([14, 14, 14, 19, 19], [(5, 4), (3, 0), (4, 2), (13, 6), REFUSED]),
        ([7], [2]),
    ],
)
def test_placement_rules(host: Path, nvml: Nvml, profiles: list[int], made: list[object]) -> None:
    assert nvml(host, CREATE.format(profiles=profiles)) == str(made)


def test_mig_device_and_what_it_hides(host: Path, nvml: Nvml) -> None:
    told = nvml(
        host,
        """
p.nvmlDeviceSetMigMode(h, 1)
g = p.nvmlDeviceCreateGpuInstance(h, 9)
c = p.nvmlGpuInstanceCreateComputeInstance(g, 2)
m = p.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)
print(p.nvmlDeviceGetName(m), p.nvmlDeviceGetMemoryInfo(m).total >> 20, p.nvmlDeviceGetUUID(m)[:4])
print(p.nvmlDeviceGetName(p.nvmlDeviceGetHandleByUUID(p.nvmlDeviceGetUUID(m).encode())))
for call in (p.nvmlDeviceGetRemappedRows, p.nvmlDeviceGetUtilizationRates,
             lambda x: p.nvmlDeviceGetNvLinkState(x, 0), lambda x: p.nvmlGpuInstanceDestroy(g),
             lambda x: p.nvmlDeviceSetMigMode(x, 0)):
    try:
        print(call(h))
    except p.NVMLError as error:
        print(error.value)
""",
    )
    name = "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert told.splitlines() == [f"{name} 40192 MIG-", name, "3", "3", "3", "19", "19"]


def test_a_client_leaves_the_mode_pending(host: Path, nvml: Nvml) -> None:
    faults.inject(host, "gpu-held")
    assert nvml(host, "print(p.nvmlDeviceSetMigMode(h, 1), p.nvmlDeviceGetMigMode(h))") == "19 [0, 1]"
    assert nvml(host, "print([x.pid for x in p.nvmlDeviceGetComputeRunningProcesses(h)])") == "[4242]"


def test_links_end_at_twelve(healthy: Path, nvml: Nvml) -> None:
    told = nvml(
        healthy,
        """
print([p.nvmlDeviceGetNvLinkState(h, link) for link in range(12)], p.nvmlDeviceGetNvLinkRemoteDeviceType(h, 0))
print([(v.nvmlReturn, v.value.ullVal) for v in p.nvmlDeviceGetFieldValues(h, [82, 84, 137, 91, 147, 38, 150])])
p.nvmlDeviceGetNvLinkState(h, 12)
""",
    )
    assert told.splitlines() == [
        f"{[1] * 12} 2",
        "[(0, 36), (0, 25000), (0, 25000), (0, 12), (0, 12), (0, 0), (3, 0)]",
    ]


def test_topology(healthy: Path, nvml: Nvml) -> None:
    told = nvml(
        healthy,
        """
others = [p.nvmlDeviceGetHandleByIndex(i) for i in (1, 2, 4)]
print([p.nvmlDeviceGetTopologyCommonAncestor(h, other) for other in others])
print([list(p.nvmlDeviceGetMemoryAffinity(other, 1, 0)) for other in (h, others[2])])
""",
    )
    assert told.splitlines() == ["[20, 40, 50]", "[[1], [2]]"]


def test_bridged_pcie_boards(make_host: Callable[[str, int], Path], nvml: Nvml) -> None:
    told = nvml(
        make_host("a100-80gb-pcie", 4),
        """
print([p.nvmlDeviceGetP2PStatus(h, p.nvmlDeviceGetHandleByIndex(i), 2) for i in (1, 2)])
print(p.nvmlDeviceGetName(h), p.nvmlDeviceGetNvLinkRemoteDeviceType(h, 0), p.nvmlDeviceGetPowerManagementLimit(h))
""",
    )
    assert told.splitlines() == ["[0, 5]", "NVIDIA A100 80GB PCIe 0 300000"]


def test_two_writers_lose_nothing(host: Path, nvml: Nvml) -> None:
    told = nvml(
        host,
        """
import threading
def hold(index):
    device = p.nvmlDeviceGetHandleByIndex(index)
    for turn in range(20):
        p.nvmlDeviceSetPowerManagementLimit(device, 200000 + turn)
threads = [threading.Thread(target=hold, args=(index,)) for index in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print([p.nvmlDeviceGetPowerManagementLimit(p.nvmlDeviceGetHandleByIndex(i)) for i in range(5)])
""",
    )
    assert told == str([200019] * 4 + [400000])
