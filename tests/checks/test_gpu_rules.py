"""Faults as differences from the healthy host, and look-alikes that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations, MigLayout
from tests.checks.conftest import added, edited, logged, of, only, without

Verdicts = Callable[..., dict[str, str]]

XID = "NVRM: Xid (PCI:0000:4c:00): {}, pid='<unknown>', name=<unknown>, {}"


def nvml(bundle: Bundle, change: Callable[[dict[str, object]], None], *gpus: int) -> Bundle:
    """Change devices in NVML's answer, which every other form of the same values yields to."""
    answer = json.loads(bundle.of("nvml")[0].text)
    for index in gpus or range(8):
        change(answer["devices"][index])
    return added(without(bundle, "nvml", "nvidia-smi-q"), "nvml", json.dumps(answer))


def test_healthy(healthy: Bundle, verdicts: Verdicts) -> None:
    assert {check: verdict for check, verdict in verdicts(healthy).items() if verdict != "unknown"} == {}


LOG = [
    pytest.param(XID.format(79, "GPU has fallen off the bus."), "gpu.on-bus", "fail", id="xid 79"),
    pytest.param(
        XID.format(119, "Timeout after 45s of waiting for RPC response"), "gpu.gsp", "fail", id="xid 119"
    ),
    pytest.param(XID.format(74, "NVLink: fatal error detected on link 3"), "nvlink.errors", "fail", id="xid 74"),
    pytest.param(XID.format(95, "Uncontained"), "memory.uncorrected-ecc", "fail", id="xid 95"),
    pytest.param(XID.format(13, "Graphics SM Warp Exception"), "gpu.xid", "warn", id="xid 13"),
    pytest.param(XID.format(45, "Ch 00000008"), "gpu.xid", "note", id="xid 45 alone"),
    pytest.param(
        "nvidia-nvswitch2: SXid (PCI:0000:ab:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "fabric.switch-errors",
        "fail",
        id="sxid",
    ),
    pytest.param("NVRM: GPU 0000:4c:00.0: RmInitAdapter failed! (0x24:0x65:1417)", "gpu.count", "fail", id="init"),
    pytest.param(
        "Loading of module with unavailable key is rejected", "driver.secure-boot", "note", id="other module"
    ),
    pytest.param(
        "pcieport 0000:00:01.1: AER: Uncorrectable (Fatal) error message received from 0000:00:01.1",
        "pcie.aer",
        "fail",
        id="fatal aer",
    ),
]


@pytest.mark.parametrize(("line", "check", "verdict"), LOG)
def test_kernel_log(healthy: Bundle, verdicts: Verdicts, line: str, check: str, verdict: str) -> None:
    assert verdicts(logged(healthy, line))[check] == verdict


@pytest.mark.parametrize(
    ("number", "check", "verdict"),
    [(63, "memory.row-remap-pending", "warn"), (64, "memory.row-remap-failure", "fail")],
)
def test_rows_are_judged_by_the_log_where_the_driver_does_not_tell(
    healthy: Bundle, verdicts: Verdicts, number: int, check: str, verdict: str
) -> None:
    bundle = logged(healthy, XID.format(number, "Row Remapper: a row"))
    assert check not in verdicts(bundle)
    assert verdicts(only(bundle, "dmesg"))[check] == verdict


@pytest.mark.parametrize(
    "settled",
    [
        "nvidia 0000:4c:00.0: reset done",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 240",
        "Linux version 6.8.0-60-generic (builder) #1 SMP",
        XID.format(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
    ],
)
def test_a_reset_settles_an_xid(healthy: Bundle, verdicts: Verdicts, settled: str) -> None:
    bundle = logged(healthy, XID.format(119, "Timeout"), XID.format(95, "Uncontained"), settled)
    assert not {"gpu.gsp", "gpu.xid", "memory.uncorrected-ecc"} & set(verdicts(bundle))


def test_a_reset_of_another_gpu_settles_nothing(healthy: Bundle, verdicts: Verdicts) -> None:
    bundle = logged(healthy, XID.format(119, "Timeout"), "nvidia 0000:07:00.0: reset done")
    assert verdicts(bundle)["gpu.gsp"] == "fail"


def test_repeats_are_told_once(healthy: Bundle, want: Expectations) -> None:
    bundle = logged(healthy, *[XID.format(45, f"Ch {number}") for number in range(30)])
    assert [f.observed.partition(":")[0] for f in of(examine(bundle, want), "gpu.xid")] == ["Xid 45 x30"]


DRIVER = [
    pytest.param(lambda d: d.update(link_width_current=8), "pcie.link-width", "fail", id="x8 that could do x16"),
    pytest.param(
        lambda d: d.update(link_width_current=8, link_width_max=8), "pcie.link-width", "fail", id="x8 slot"
    ),
    pytest.param(
        lambda d: d.update(link_generation_current=1, utilization_gpu_percent=96, performance_state=0),
        "pcie.link-speed",
        "warn",
        id="slow under load",
    ),
    pytest.param(
        lambda d: d.update(link_generation_current=1, utilization_gpu_percent=0, performance_state=8),
        "pcie.link-speed",
        "note",
        id="slow while idle",
    ),
    pytest.param(lambda d: d.update(vbios_version="92.00.19.00.05"), "firmware.uniform", "warn", id="mixed vbios"),
    pytest.param(lambda d: d.update(vbios_version="96.00.30.00.01"), "firmware.vbios", "note", id="foreign vbios"),
    pytest.param(lambda d: d.update(persistence_mode=0), "gpu.persistence", "warn", id="persistence off"),
    pytest.param(lambda d: d.update(clocks_event_reasons=0x88), "power.brake", "fail", id="power brake"),
    pytest.param(lambda d: d.update(clocks_event_reasons=0x48), "thermal.slowdown", "fail", id="hardware heat"),
    pytest.param(lambda d: d.update(clocks_event_reasons=0x20), "thermal.slowdown", "warn", id="software heat"),
    pytest.param(
        lambda d: d.update(temperature_memory_celsius=96), "memory.hbm-temperature", "warn", id="hot memory"
    ),
    pytest.param(
        lambda d: d.update(mig_mode_current=1, mig_mode_pending=1), "mig.mode", "note", id="mig undeclared"
    ),
    pytest.param(lambda d: d.update(mig_mode_pending=1), "mig.mode", "warn", id="mig pending"),
    pytest.param(lambda d: d.update(recovery_action=2), "gpu.recovery-action", "fail", id="reboot wanted"),
]


@pytest.mark.parametrize(("change", "check", "verdict"), DRIVER)
def test_one_gpu(
    healthy: Bundle, verdicts: Verdicts, change: Callable[[dict[str, object]], None], check: str, verdict: str
) -> None:
    assert verdicts(nvml(healthy, change, 3))[check] == verdict


def test_the_link_check_tells_slot_and_card_apart(healthy: Bundle, want: Expectations) -> None:
    tree = json.loads(healthy.of("pci")[0].text)
    tree["/sys/bus/pci/devices/0000:4c:00.0/current_link_width"] = "8"
    bundle = added(without(healthy, "pci"), "pci", json.dumps(tree))
    port = tree["/sys/bus/pci/devices/0000:4c:00.0@"].split("/")[-2]
    finding = next(f for f in of(examine(bundle, want), "pcie.link-width") if f.verdict == "fail")
    assert "could do x16" in finding.observed
    tree[f"/sys/bus/pci/devices/{port}/max_link_width"] = "8"
    bundle = added(without(healthy, "pci"), "pci", json.dumps(tree))
    finding = next(f for f in of(examine(bundle, want), "pcie.link-width") if f.verdict == "fail")
    assert f"{port}, has x8" in finding.observed


def test_a_lost_gpu_is_the_cause_of_the_count(healthy: Bundle, want: Expectations) -> None:
    def lose(device: dict[str, object]) -> None:
        device.update({key: {"error": "GPU_IS_LOST"} for key in device if key != "index"})

    bundle = without(nvml(healthy, lose, 6), "nvidia-smi", "nvidia-smi-L", "nvidia-smi-nvlink")
    findings = examine(bundle, want)
    assert [f.subject for f in of(findings, "gpu.on-bus") if f.verdict == "fail"] == ["gpu 0000:c8:00.0"]
    count = of(findings, "gpu.count")[0]
    assert (count.verdict, count.observed, count.cause) == ("fail", "7 GPUs", "gpu.on-bus")


def test_fewer_gpus_than_on_the_bus(healthy: Bundle, verdicts: Verdicts, want: Expectations) -> None:
    row = [
        line for line in healthy.of("nvidia-smi-L")[0].text.splitlines(keepends=True) if line.startswith("GPU 7")
    ]
    bundle = edited(only(healthy, "nvidia-smi-L", "pci"), ("nvidia-smi-L", row[0], ""))
    assert verdicts(bundle, replace(want, gpus=None))["gpu.count"] == "fail"
    assert verdicts(only(healthy, "nvidia-smi-L"), replace(want, gpus=None))["gpu.count"] == "unknown"


def test_nvlink(healthy: Bundle, verdicts: Verdicts) -> None:
    bundle = without(healthy, "nvml")
    block = bundle.of("nvidia-smi-nvlink")[0].text.split("GPU 5: ")[1].split("GPU 6: ")[0]
    one = edited(bundle, ("nvidia-smi-nvlink", block, block.replace("Link 7: 25 GB/s", "Link 7: <inactive>")))
    assert verdicts(one)["nvlink.links"] == "fail"
    head = block.splitlines()[0]
    told = "\tNVML: Unable to retrieve NVLink information as all links are inActive\n"
    all_down = edited(bundle, ("nvidia-smi-nvlink", block, f"{head}\n{told}"))
    assert verdicts(all_down)["nvlink.links"] == "fail"
    mig = edited(
        bundle,
        ("nvidia-smi-nvlink", block, f"{head}\n\tNvlink queries are not supported for Devices in MIG mode\n"),
    )
    assert "nvlink.links" not in verdicts(mig)


def test_nvlink_without_a_known_product(healthy: Bundle, verdicts: Verdicts) -> None:
    """A GPU is held against its peers; cards without bridges are no alarm."""
    matrix = edited(only(healthy, "nvidia-smi-topo"), ("nvidia-smi-topo", "GPU2\tNV12\tNV12", "GPU2\tSYS\tNV12"))
    assert (
        verdicts(
            edited(matrix, ("nvidia-smi-topo", "GPU0\t X \tNV12\tNV12", "GPU0\t X \tNV12\tSYS")), Expectations()
        )["nvlink.topology"]
        == "fail"
    )
    pcie = edited(only(healthy, "nvidia-smi-topo"), ("nvidia-smi-topo", "NV12", "SYS"))
    assert verdicts(pcie, Expectations())["nvlink.topology"] == "note"
    card = skus()["a100-80gb-pcie"]
    assert verdicts(pcie, Expectations(sku=card))["nvlink.topology"] == "note"
    bridged = Expectations(sku=card, bridged_pairs=((0, 1),))
    assert verdicts(pcie, bridged)["nvlink.topology"] == "fail"


FABRIC = [
    pytest.param([("ActiveState=active", "ActiveState=inactive")], "fabric.running", id="stopped"),
    pytest.param([("LoadState=loaded", "LoadState=not-found")], "fabric.running", id="not installed"),
]


@pytest.mark.parametrize(("edits", "check"), FABRIC)
def test_fabric(healthy: Bundle, verdicts: Verdicts, edits: list[tuple[str, str]], check: str) -> None:
    bundle = edited(healthy, *[("fabricmanager-unit", old, new) for old, new in edits])
    assert verdicts(bundle)[check] == "fail"


def test_fabric_version_is_exact(healthy: Bundle, verdicts: Verdicts) -> None:
    bundle = edited(healthy, ("fabricmanager-version", "580.95.05", "580.95.04"))
    assert verdicts(bundle)["fabric.version"] == "fail"


def test_fabric_is_not_needed_without_switches(healthy: Bundle, verdicts: Verdicts) -> None:
    tree = json.loads(healthy.of("pci")[0].text)
    switches = {path.split("/")[5] for path, text in tree.items() if path.endswith("/device") and "1af1" in text}
    rest = {path: text for path, text in tree.items() if path.split("/")[5].rstrip("@") not in switches}
    bundle = added(without(healthy, "pci"), "pci", json.dumps(rest))
    bundle = edited(bundle, ("fabricmanager-unit", "ActiveState=active", "ActiveState=failed"))
    found = verdicts(bundle, Expectations(sku=skus()["a100-80gb-pcie"]))
    assert found["fabric.needed"] == "note"
    assert not {"fabric.running", "fabric.version", "fabric.switches"} & set(found)


def test_driver(healthy: Bundle, verdicts: Verdicts, want: Expectations) -> None:
    refused = Capture("nvml", "failed", '{"system": {}, "init": "LIB_RM_VERSION_MISMATCH", "devices": []}')
    mismatch = replace(without(healthy, "nvml"), captures=(*without(healthy, "nvml").captures, refused))
    assert verdicts(mismatch)["driver.versions-agree"] == "fail"
    assert verdicts(healthy, replace(want, driver_floor="620.10.01"))["driver.cuda-match"] == "fail"
    assert "driver.cuda-match" not in verdicts(healthy, replace(want, driver_floor="580.65.06"))
    wheel = added(
        edited(without(healthy, "nvml"), ("nvidia-smi", "13.0", "12.2"), ("nvidia-smi-q", "13.0", "12.2")),
        "cuda-errors",
        "torch 2.9.1+cu130\n",
    )
    assert verdicts(edited(wheel, ("nvidia-smi-version", "13.0", "12.2")))["driver.cuda-match"] == "fail"


def test_a_hanging_driver_tells_its_story_once(healthy: Bundle, want: Expectations) -> None:
    fed = (
        "nvml",
        "nvidia-smi",
        "nvidia-smi-q",
        "nvidia-smi-L",
        "nvidia-smi-topo",
        "nvidia-smi-nvlink",
        "nvidia-smi-version",
    )
    hung = tuple(Capture(name, "timeout", error="no answer in 10 s") for name in fed)
    findings = examine(replace(without(healthy, *fed), captures=(*without(healthy, *fed).captures, *hung)), want)
    assert [f.check for f in findings if f.verdict == "fail" and not f.cause] == ["driver.present"]
    ours = ("gpu.", "pcie.link", "nvlink.", "firmware.", "mig.mode", "thermal.", "power.", "memory.")
    lone = [f.check for f in findings if f.verdict == "unknown" and not f.cause and f.check.startswith(ours)]
    assert lone == []


MIG = tuple(MigLayout(gpu, True, ("3g.40gb", "3g.40gb"), "inventory") for gpu in range(8))


def test_mig_as_declared(healthy: Bundle, verdicts: Verdicts, want: Expectations) -> None:
    def split(device: dict[str, object]) -> None:
        name = "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
        made = [
            {"index": number, "uuid": f"MIG-{number}", "name": name, "gi_id": number + 1, "ci_id": 0}
            for number in (0, 1)
        ]
        device.update(mig_mode_current=1, mig_mode_pending=1, mig_devices=made)

    declared = replace(want, mig=MIG)
    partitioned = without(nvml(healthy, split), "nvidia-smi", "nvidia-smi-L", "nvidia-smi-nvlink")
    assert not {"mig.mode", "mig.layout"} & set(verdicts(partitioned, declared))
    assert verdicts(nvml(healthy, lambda device: None), declared)["mig.mode"] == "fail"
    other = replace(want, mig=tuple(replace(layout, profiles=("7g.80gb",)) for layout in MIG))
    found = [f for f in examine(partitioned, other) if f.check == "mig.layout"]
    assert {(f.verdict, f.remedy.role) for f in found} == {("fail", "gpu_partitions")}


def test_numa(healthy: Bundle, verdicts: Verdicts) -> None:
    bundle = edited(
        healthy,
        (
            "pci",
            '"/sys/bus/pci/devices/0000:07:00.0/numa_node": "0"',
            '"/sys/bus/pci/devices/0000:07:00.0/numa_node": "-1"',
        ),
    )
    assert verdicts(bundle)["numa.affinity"] == "fail"
    one_node = added(
        without(bundle, "numa-nodes"), "numa-nodes", '{"/sys/devices/system/node/node0/cpulist": "0-63"}'
    )
    assert verdicts(one_node)["numa.affinity"] == "note"


TABLE = (
    "| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8 |\n"
    "|   3  NVIDIA A100-SXM4-80GB          On  |   00000000:4C:00.0 Off | {ecc:>20} |\n"
    "| {fan:>4}  {temp:>4}  {perf:>4}          {watts} | {memory} |   {busy}      Default |\n"
)
READ = {
    "ecc": "0",
    "fan": "N/A",
    "temp": "34C",
    "perf": "P0",
    "watts": "54W / 400W",
    "memory": "1MiB / 81920MiB",
    "busy": "0%",
}


def test_a_gpu_whose_table_shows_errors_alone_is_lost(verdicts: Verdicts) -> None:
    errors = {**dict.fromkeys(READ, "ERR!"), "watts": "ERR! / ERR!", "memory": "ERR! / ERR!"}
    table = added(Bundle("host", ()), "nvidia-smi", TABLE.format(**errors))
    assert verdicts(table, Expectations())["gpu.on-bus"] == "fail"
    fan = added(Bundle("host", ()), "nvidia-smi", TABLE.format(**{**READ, "fan": "ERR!"}))
    assert "gpu.on-bus" not in verdicts(fan, Expectations())


def test_a_driver_without_any_gpu(verdicts: Verdicts) -> None:
    table = added(Bundle("host", ()), "nvidia-smi", "No devices were found\n")
    assert verdicts(table, Expectations())["gpu.count"] == "fail"
    bus = added(table, "lspci", "0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2]\n")
    assert verdicts(bus, Expectations()).get("gpu.count") != "fail"


@pytest.mark.parametrize("shell", ["bash: nvidia-smi: command not found", "sh: 1: nvidia-smi: not found"])
def test_a_host_without_nvidia_smi(verdicts: Verdicts, shell: str) -> None:
    table = added(Bundle("host", ()), "nvidia-smi", f"{shell}\n")
    assert verdicts(table, Expectations())["driver.present"] == "unknown"
    bus = added(table, "lspci", "0000:4c:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b2]\n")
    assert verdicts(bus, Expectations())["driver.present"] == "fail"


def test_an_unknown_error_of_nvml_alone_names_both_causes(verdicts: Verdicts) -> None:
    table = added(Bundle("host", ()), "container-errors", "Failed to initialize NVML: Unknown Error\n")
    assert verdicts(table, Expectations())["container.gpu-access"] == "warn"


CSV = "index, {}pcie.link.width.current, pcie.link.width.max\n0, {}16, 16\n1, {}8, 16\n2, {}16, 16\n"


@pytest.mark.parametrize(
    ("name", "verdict"), [("NVIDIA A100-SXM4-80GB", "fail"), ("", "warn"), ("NVIDIA GeForce RTX 3090", "note")]
)
def test_lanes_of_a_board_that_is_known_by_name_alone(verdicts: Verdicts, name: str, verdict: str) -> None:
    """The driver's own maximum is what card and slot can do together."""
    cell = f"{name}, " if name else ""
    text = CSV.format("name, " if name else "", cell, cell, cell)
    found = verdicts(added(Bundle("host", ()), "nvidia-smi-csv", text), Expectations())
    assert (found["pcie.link-width"], found.get("gpu.uniform")) == (verdict, None)


def nvlink(counter: str) -> str:
    rows = (f"\t Link {link}: {counter}\n" for link in range(12))
    return "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n" + "".join(rows)


@pytest.mark.parametrize("counter", ["CRC Errors: 0", "Data Tx: 0 KiB", "Remote Device 00000000:C5:00.0: Link 3"])
def test_other_answers_about_links_tell_no_state(verdicts: Verdicts, counter: str) -> None:
    bundle = added(Bundle("host", ()), "nvidia-smi-nvlink", nvlink(counter))
    assert verdicts(bundle, Expectations())["nvlink.links"] == "unknown"
    both = added(bundle, "nvidia-smi-nvlink", nvlink("25 GB/s"))
    assert "nvlink.links" not in verdicts(both, Expectations())


HEAD = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
PAIRS = (
    "GPU0\t X \t{0}\tSYS\tSYS\t0-31\nGPU1\t{0}\t X \tSYS\tSYS\t0-31\n"
    "GPU2\tSYS\tSYS\t X \t{1}\t32-63\nGPU3\tSYS\tSYS\t{1}\t X \t32-63\n"
)


@pytest.mark.parametrize(("cells", "verdict"), [(("NV12", "NV8"), "warn"), (("NV12", "NV12"), None)])
def test_bridged_pairs_of_a_board_that_is_not_known(
    verdicts: Verdicts, cells: tuple[str, str], verdict: str | None
) -> None:
    bundle = added(Bundle("host", ()), "nvidia-smi-topo", HEAD + PAIRS.format(*cells))
    assert verdicts(bundle, Expectations()).get("nvlink.topology") == verdict


def test_boards_with_sxm_in_their_name_should_be_joined(verdicts: Verdicts) -> None:
    listing = "".join(f"GPU {n}: NVIDIA A100-SXM4-40GB (UUID: GPU-{n})\n" for n in range(4))
    matrix = added(Bundle("host", ()), "nvidia-smi-topo", HEAD + PAIRS.format("PHB", "PHB"))
    assert verdicts(added(matrix, "nvidia-smi-L", listing), Expectations())["nvlink.topology"] == "warn"
    parted = listing.replace(")\n", ")\n  MIG 1g.5gb     Device  0: (UUID: MIG-1)\n")
    assert "nvlink.topology" not in verdicts(added(matrix, "nvidia-smi-L", parted), Expectations())


def test_gpu_instances_are_read_from_their_own_table(verdicts: Verdicts) -> None:
    row = "|   0  MIG 3g.40gb            9        {}          {}:4     |\n"
    gpus = "index, mig.mode.current\n0, Enabled\n"
    table = "| GPU instances:                                          |\n" + row.format(1, 4) + row.format(2, 0)
    parted = added(added(Bundle("host", ()), "nvidia-smi-csv", gpus), "nvidia-smi-mig-lgi", table)
    assert "mig.instances" not in verdicts(parted, Expectations())
    bare = added(
        added(Bundle("host", ()), "nvidia-smi-csv", gpus),
        "nvidia-smi-mig-lgi",
        "No GPU instances found: Not Found\n",
    )
    assert verdicts(bare, Expectations())["mig.instances"] == "warn"


def test_the_head_of_a_table_tells_of_no_gpu(verdicts: Verdicts) -> None:
    head = TABLE.splitlines()[0] + "\n"
    assert verdicts(added(Bundle("host", ()), "nvidia-smi", head), Expectations())["gpu.count"] == "unknown"
