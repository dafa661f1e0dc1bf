"""Every form in which the facts are printed, old and new; the values are made up."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from qwenhost.facts.cuda_errors import errors_from_output
from qwenhost.facts.driver import (
    answer_of_nvml,
    answer_of_table,
    versions_from_kernel_log,
    versions_from_proc,
    versions_from_smi,
    versions_from_table,
)
from qwenhost.facts.fabric import said_in_log, unit_state
from qwenhost.facts.kernel_lines import KERNEL_LOG
from qwenhost.facts.kernel_log import kernel_events
from qwenhost.facts.mig import instances_from_listing
from qwenhost.facts.module_build import modules_from_status
from qwenhost.facts.nvlink import links_from_status
from qwenhost.facts.pci import devices_from_lspci
from qwenhost.facts.reading import bus_id
from qwenhost.facts.registry import sources
from qwenhost.facts.smi.query import gpus_from_query
from qwenhost.facts.smi.table import gpus_from_table
from qwenhost.facts.smi.xml import gpus_from_xml
from qwenhost.facts.topology import topology_from_matrix
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


def ok(text: str) -> Capture:
    return Capture("test", "ok", textwrap.dedent(text))


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("00000000:4E:00.0", "0000:4e:00.0"),
        ("0000:4e:00", "0000:4e:00.0"),
        ("4e:00.0 3D controller", "0000:4e:00.0"),
        ("PCI:0001:00:1c", "0001:00:1c.0"),
        ("GPU0000:03:00.0: Unknown Error", "0000:03:00.0"),
        ("no address", ""),
    ],
)
def test_bus_ids(printed: str, expected: str) -> None:
    assert bus_id(printed) == expected


STAMPS = [
    "[ 4242.123456] ",
    "[Mon Nov 30 10:11:12 2026] ",
    "[  +0.000316] ",
    "4,1234,4242123456,-;",
    "<4>[ 4242.123456] ",
    "Nov 30 10:11:12 node7 kernel: ",
    "Nov 30 10:11:12 node7 kernel: [ 4242.123456] ",
    "2026-11-30T10:11:12,123456+00:00 ",
    "2026-11-30T10:11:12.123456+0100 node7 kernel: ",
    "kern  :warn  : [Mon Nov 30 10:11:12 2026] ",
    "10.0.0.7: kern: warning: [2026-11-30T10:11:12.123456789Z]: ",
]


@pytest.mark.parametrize("stamp", STAMPS)
def test_stamps_of_the_kernel_log(stamp: str) -> None:
    line = "NVRM: Xid (PCI:0000:4e:00): 79, pid=7, name=python3, GPU has fallen off the bus."
    assert KERNEL_LOG.recognises(f"{stamp}something\n")
    (event,) = kernel_events(ok(f"{stamp}{line}\n")).events
    assert (event.kind, event.number, event.bus_id) == ("xid", 79, "0000:4e:00.0")
    assert event.text == line


def test_notices_over_several_lines() -> None:
    log = """\
        [   12.000000] NVRM: The NVIDIA GPU 0000:4e:00.0
                       NVRM: (PCI ID: 10de:20b2) installed in this system has
                       NVRM: fallen off the bus and is not responding to commands.
        [   13.000000] NVRM: API mismatch: the client has the version 580.95.05, but
        [   13.000001] NVRM: this kernel module has the version 580.65.06.  Please
        """
    events = {event.kind: event for event in kernel_events(ok(log)).events}
    assert events["off-bus"].bus_id == "0000:4e:00.0"
    versions = versions_from_kernel_log(ok(log))
    assert (versions.module, versions.client) == ("580.65.06", "580.95.05")


def test_other_logs_are_no_kernel_log() -> None:
    with pytest.raises(Unparsable):
        kernel_events(ok("[1764500000.123456] [node7:4242 :0] ucp_context.c:969 UCX  WARN  value\n"))


def test_query_is_read_by_indentation() -> None:
    text = """\
        ==============NVSMI LOG==============

        Driver Version : 525.85.12
        Attached GPUs                   : 8
        GPU 00000000:4E:00.0
            MIG Mode
                Current                 : Disabled
                Pending                 : Enabled   <=== look
            PCI
                Device Id               : 0x20B210DE
                GPU Link Info
                    PCIe Generation
                        Max             : 4
                        Current         : 1
                    Link Width
                        Max             : 16x
                        Current         : 8x
            Clocks Throttle Reasons
                HW Slowdown             : Active
                    HW Thermal Slowdown : Not Active
                    HW Power Brake Slowdown : Active
            Ecc Mode
                Current                 : Enabled
            Remapped Rows
                Pending                 : Yes
                Remapping Failure Occurred : No
        """
    gpus = gpus_from_query(ok(text))
    (gpu,) = gpus.gpus
    assert (gpus.attached, gpu.index, gpu.device_id) == (8, None, "20b2")
    assert (gpu.generation_current, gpu.generation_max, gpu.width_current, gpu.width_max) == (1, 4, 8, 16)
    assert (gpu.mig, gpu.mig_pending, gpu.ecc) == (False, True, True)
    assert gpu.slowdowns == {"hardware slowdown", "hardware power brake"}
    assert (gpu.remap_pending, gpu.remap_failure) == (True, False)


def test_a_lost_gpu_in_the_query() -> None:
    fields = "\n".join(f"    {name} : GPU is lost" for name in ("Product Name", "Serial Number", "VBIOS Version"))
    (gpu,) = gpus_from_query(ok(f"Attached GPUs : 1\nGPU 00000000:4E:00.0\n{fields}\n")).gpus
    assert gpu.lost == "GPU is lost"


@pytest.mark.parametrize("reasons", ["clocks_throttle_reason", "clocks_event_reason"])
def test_xml_of_both_document_types(reasons: str) -> None:
    text = f"""<?xml version="1.0" ?>
        <!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
        <nvidia_smi_log><driver_version>580.95.05</driver_version><attached_gpus>1</attached_gpus>
        <gpu id="00000000:4E:00.0"><persistence_mode>Enabled</persistence_mode>
        <{reasons}s><{reasons}_gpu_idle>Active</{reasons}_gpu_idle>
        <{reasons}_sw_thermal_slowdown>Active</{reasons}_sw_thermal_slowdown></{reasons}s>
        <remapped_rows>N/A</remapped_rows></gpu></nvidia_smi_log>"""
    (gpu,) = gpus_from_xml(ok(text)).gpus
    assert gpu.slowdowns == {"idle", "software thermal slowdown"}
    assert (gpu.bus_id, gpu.index, gpu.persistence, gpu.remap_pending) == ("0000:4e:00.0", 0, True, None)


def test_xml_with_entities_is_refused() -> None:
    with pytest.raises(Unparsable):
        gpus_from_xml(ok('<!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log><gpu id="1"/></nvidia_smi_log>'))


NARROW = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 515.65.01    Driver Version: 515.65.01    CUDA Version: 11.7     |
|-------------------------------+----------------------+----------------------+
|   0  NVIDIA A100-SXM...  On   | 00000000:4E:00.0 Off |                    0 |
| N/A   31C    P0    63W / 400W |      0MiB / 81920MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+"""
WIDE = """\
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|   0  NVIDIA A100-SXM4-80GB         Off  |   00000000:4E:00.0 Off |                   On |
| N/A   31C    P0             63W /  400W |       0MiB /  81920MiB |     N/A      Default |
|                                         |                        |             Enabled* |
"""


def test_tables_of_both_widths() -> None:
    (narrow,), (wide,) = gpus_from_table(ok(NARROW)).gpus, gpus_from_table(ok(WIDE)).gpus
    assert (narrow.bus_id, narrow.name, narrow.persistence, narrow.mig) == ("0000:4e:00.0", None, True, False)
    assert (wide.name, wide.persistence, wide.mig, wide.mig_pending) == (
        "NVIDIA A100-SXM4-80GB",
        False,
        True,
        False,
    )
    assert (narrow.power_limit_watts, narrow.memory_total_mib, wide.utilization_percent) == (400, 81920, None)
    assert versions_from_table(ok(NARROW)).cuda == "11.7"


STATES = [
    ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n", "mismatch"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "not loaded"),
    ("Unable to determine the device handle for GPU0000:4E:00.0: Unknown Error\n", "gpu lost"),
    ("No devices were found\n", "no gpu"),
    ("Failed to initialize NVML: Unknown Error\n", "error"),
    (WIDE, "ok"),
]


@pytest.mark.parametrize(("text", "state"), STATES)
def test_what_the_driver_answers(text: str, state: str) -> None:
    assert answer_of_table(ok(text)).state == state


@pytest.mark.parametrize(
    ("capture", "state"),
    [
        (Capture("nvml", "timeout"), "hangs"),
        (Capture("nvml", "ok", '{"init": "SUCCESS"}'), "ok"),
        (Capture("nvml", "missing", '{"init": "LIBRARY_NOT_FOUND"}'), "absent"),
        (Capture("nvml", "failed", '{"init": "DRIVER_NOT_LOADED"}'), "not loaded"),
        (Capture("nvml", "failed", '{"init": "UNKNOWN"}'), "error"),
    ],
)
def test_what_nvml_answers(capture: Capture, state: str) -> None:
    assert answer_of_nvml(capture).state == state


@pytest.mark.parametrize(
    ("line", "version", "is_open"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025",
            "580.95.05",
            False,
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.58.03  Release Build  (b@h)",
            "595.58.03",
            True,
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  460.56  Tue Feb 23 23:31:58 UTC 2021", "460.56", False),
    ],
)
def test_module_versions(line: str, version: str, is_open: bool) -> None:
    versions = versions_from_proc(ok(line))
    assert (versions.module, versions.open_module) == (version, is_open)


def test_version_names_since_branch_610() -> None:
    text = """\
        NVIDIA-SMI version  : 610.57.04
        NVML version        : 610.57.04
        DRIVER version      : Deprecated, see "KMD version" instead
        KMD version         : 610.57.04
        CUDA version        : Deprecated, see "CUDA UMD version" instead
        CUDA UMD version    : 13.3
        """
    versions = versions_from_smi(ok(text))
    assert (versions.module, versions.library, versions.cuda) == ("610.57.04", "610.57.04", "13.3")


MATRIX = [
    "\x1b[4m\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\t0-31,64-95\t0\t\tN/A\nGPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A\nNIC0\tPXB\tSYS\t X\n",
    "        GPU0    GPU1    mlx5_0  CPU Affinity    NUMA Affinity\n"
    "GPU0     X      NV12    PXB     0-31,64-95      0\nGPU1    NV12     X      SYS     32-63           1\n",
]


@pytest.mark.parametrize("text", MATRIX)
def test_matrix_with_tabs_and_blanks(text: str) -> None:
    topology = topology_from_matrix(Capture("test", "ok", text))
    assert topology.cells == {(0, 1): "NV12", (1, 0): "NV12"}
    assert topology.cpus == {0: "0-31,64-95", 1: "32-63"}
    assert topology.numa == {0: "0", 1: "1"}


def test_link_states() -> None:
    text = """\
        GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-a)
        \t Link 0: 25 GB/s
        \t Link 1: <inactive>
        \t Link 2: 0 GB/s
        GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-b)
        \tNVML: Unable to retrieve NVLink information as all links are inActive
        """
    one, two = links_from_status(ok(text)).gpus
    assert (one.up, one.down, two.silence) == ((0,), (1, 2), "all inactive")


def test_lspci_forms() -> None:
    text = """\
        0001:00:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)
        0002:00:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:1af1] (rev a1)
        4e:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev ff) (prog-if ff)
        \t!!! Unknown header type 7f
        51:00.0 VGA compatible controller: NVIDIA Corporation Device 2684 (rev a1)
        \tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
        \tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
        """
    found = devices_from_lspci(ok(text))
    assert [device.bus_id for device in found.gpus] == ["0001:00:00.0", "0000:4e:00.0", "0000:51:00.0"]
    assert [device.bus_id for device in found.switches] == ["0002:00:00.0"]
    lost, narrow = found.at("0000:4e:00.0"), found.at("0000:51:00.0")
    assert lost and lost.unreachable
    assert narrow and (narrow.device, narrow.width_current, narrow.width_max, narrow.speed_current) == (
        "2684",
        8,
        16,
        2.5,
    )


def test_mig_devices_of_both_uuid_forms() -> None:
    text = """\
        GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-a)
          MIG 3g.40gb     Device  0: (UUID: MIG-5f6a)
          MIG 1g.10gb+me  Device  1: (UUID: MIG-GPU-a/7/0)
        """
    found = instances_from_listing(ok(text)).devices
    assert [(device.position, device.profile) for device in found] == [(0, "3g.40gb"), (1, "1g.10gb+me")]


@pytest.mark.parametrize(
    ("text", "running"),
    [
        ("Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState=active\nSubState=running\n", True),
        ("Id=nvidia-fabricmanager.service\nLoadState=not-found\nActiveState=inactive\n", False),
        ("Unit nvidia-fabricmanager.service could not be found.\n", False),
        ("● nvidia-fabricmanager.service - NVIDIA fabric manager\n   Active: failed (Result: exit-code)\n", False),
    ],
)
def test_unit_of_the_fabric_manager(text: str, running: bool) -> None:
    assert unit_state(ok(text)).running is running


@pytest.mark.parametrize("words", ["don't", "doesn't"])
def test_refusal_of_the_fabric_manager(words: str) -> None:
    line = f"interface version 580.95.04 {words} match with driver version 580.95.05"
    log = f"nv-fabricmanager[77]: fabric manager NVIDIA GPU driver {line}\n"
    assert said_in_log(ok(log)).mismatch == ("580.95.04", "580.95.05")


def test_cuda_errors() -> None:
    found = errors_from_output(ok("torch 2.9.1+cu130\nError 802: system not yet initialized\n"))
    assert found.of("not ready") and found.wheels == ("13.0",)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("nvidia/580.95.05, 6.1.0-32-amd64, x86_64: installed\n", "installed"),
        ("nvidia, 470.256.02, 5.15.0-113-generic, x86_64: built\n", "built"),
        ("nvidia-srv/550.54.15: added\n", "added"),
    ],
)
def test_dkms(text: str, state: str) -> None:
    assert [module.state for module in modules_from_status(ok(text)).modules] == [state]


def test_no_source_takes_prose_for_its_own() -> None:
    prose = "Dear all,\nthe host with the A100 boards is slow again. GPU 3 seems fine, link 5 too.\n\nRegards\n"
    claimed: list[Any] = [source.name for source in sources() if source.recognises(prose)]
    assert claimed == []
