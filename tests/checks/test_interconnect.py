"""What joins GPUs with one another and with other hosts: PCIe above them, NVLink, HCAs, NCCL."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict
from tests.checks.conftest import added, edited, logged, of, only, without

Verdicts = Callable[..., dict[str, str]]

NCCL = "node7:811:942 [3] NCCL"


def host(*captures: tuple[str, str]) -> Bundle:
    return Bundle("somewhere", tuple(Capture(source, "ok", text) for source, text in captures))


def worst(bundle: Bundle, check: str, want: Expectations | None = None) -> str:
    order = ["skip", "pass", "note", "unknown", "warn", "fail"]
    return max((f.verdict.value for f in of(examine(bundle, want or Expectations()), check)), key=order.index)


def log(*lines: str) -> str:
    return "".join(f"[  {500 + number}.000000] {line}\n" for number, line in enumerate(lines))


def matrix(*rows: str) -> str:
    """Return `topo -m` of GPUs with these cells, such as "X NV4" and "NV4 X"."""
    head = "\t".join(["", *(f"GPU{number}" for number in range(len(rows))), "CPU Affinity", "NUMA Affinity"])
    body = ["\t".join([f"GPU{number}", *row.split(), "0-15", "0"]) for number, row in enumerate(rows)]
    return "\n".join([head, *body]) + "\n"


PCIE_PAIR = matrix("X PHB", "PHB X")
NVLINK_PAIR = matrix("X NV4", "NV4 X")


# --- ports above the GPUs


def port(address: str, below: str, control: str = "", status: str = "") -> str:
    lines = [
        f"{address} PCI bridge [0604]: Broadcom / LSI PEX880xx PCIe Gen 4 Switch [1000:c010] (rev b0)",
        f"\tBus: primary=00, secondary={below}, subordinate={below}, sec-latency=0",
        *([f"\t\t{status}"] if status else []),
        *([f"\t\tACSCtl:\tSrcValid+ TransBlk- {control} EgressCtrl- DirectTrans-"] if control else []),
    ]
    return "\n".join(lines) + "\n\n"


def gpu(address: str, status: str = "LnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)") -> str:
    head = f"{address} 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 80GB] [10de:20b5] (rev a1)"
    return f"{head}\n\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported\n\t\t{status}\n\n"


REDIRECTS = "ReqRedir+ CmpltRedir+ UpstreamFwd+"
LETS_THROUGH = "ReqRedir- CmpltRedir- UpstreamFwd-"
CARDS = gpu("17:00.0") + gpu("65:00.0")

ACS = [
    pytest.param(port("16:00.0", "17", REDIRECTS) + port("64:00.0", "65", REDIRECTS) + CARDS, "warn", id="both"),
    pytest.param(
        port("16:00.0", "17", LETS_THROUGH) + port("64:00.0", "65", LETS_THROUGH) + CARDS, "pass", id="off"
    ),
    pytest.param(
        port("16:00.0", "17", "ReqRedir- CmpltRedir+ UpstreamFwd-") + port("64:00.0", "65") + CARDS,
        "warn",
        id="completions alone",
    ),
    pytest.param(
        port("16:00.0", "17", LETS_THROUGH)
        + port("64:00.0", "65", LETS_THROUGH)
        + port("b0:00.0", "b1", REDIRECTS)
        + CARDS,
        "pass",
        id="above another device",
    ),
    pytest.param(port("16:00.0", "17", REDIRECTS) + gpu("17:00.0"), "skip", id="one GPU"),
    pytest.param(
        port("16:00.0", "17", REDIRECTS)
        + CARDS
        + "00:02.0 Ethernet controller [0200]: Red Hat, Inc. Virtio [1af4:1041]\n",
        "skip",
        id="virtual machine",
    ),
]


@pytest.mark.parametrize(("text", "verdict"), ACS)
def test_acs(text: str, verdict: str) -> None:
    assert (
        worst(host(("lspci", text), ("nvidia-smi-topo", PCIE_PAIR if "65:00" in text else "")), "pcie.acs")
        == verdict
    )


def test_acs_counts_little_where_nvlink_joins_all() -> None:
    text = port("16:00.0", "17", REDIRECTS) + port("64:00.0", "65", REDIRECTS) + CARDS
    assert worst(host(("lspci", text), ("nvidia-smi-topo", NVLINK_PAIR)), "pcie.acs") == "note"


def test_acs_lines_without_their_ports() -> None:
    line = "\t\tACSCtl:\tSrcValid+ TransBlk- {} EgressCtrl- DirectTrans-\n"
    assert worst(host(("acs-lines", line.format(REDIRECTS))), "pcie.acs") == "warn"
    assert worst(host(("acs-lines", line.format(LETS_THROUGH))), "pcie.acs") == "pass"


@pytest.mark.parametrize("line", ["intel_iommu=off", "amd_iommu=on"])
def test_acs_that_was_not_read_is_told_with_what_the_kernel_does(line: str) -> None:
    captures = (("dmesg", log(f"Kernel command line: root=/dev/sda1 {line}")), ("nvidia-smi-topo", PCIE_PAIR))
    assert worst(host(*captures), "pcie.acs") == "note"
    assert worst(host(captures[1]), "pcie.acs") == "unknown"


IOMMU = [
    (
        "pass",
        log(
            "iommu: Default domain type: Passthrough (set via kernel command line)", "AMD-Vi: Found IOMMU cap 0x40"
        ),
    ),
    ("warn", log("iommu: Default domain type: Translated", "AMD-Vi: Lazy IO/TLB flushing enabled")),
    ("warn", log("Kernel command line: root=/dev/md0 intel_iommu=on", "DMAR: IOMMU enabled")),
    ("warn", log("iommu: Default domain type: Translated", "pci 0000:17:00.0: Adding to iommu group 31")),
    (
        "pass",
        log("Command line: BOOT_IMAGE=/vmlinuz amd_iommu=on iommu=pt", "AMD-Vi: Interrupt remapping enabled"),
    ),
    ("pass", log("Command line: BOOT_IMAGE=/vmlinuz intel_iommu=off")),
    ("unknown", log("iommu: Default domain type: Translated")),
    ("warn", log("nvidia 0000:17:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0 address=0xf4 flags=0x20]")),
    ("warn", log("DMAR: [DMA Write NO_PASID] Request device [65:00.0] fault addr 0xa000 [fault reason 0x05]")),
    ("skip", log("Hypervisor detected: KVM", "iommu: Default domain type: Translated", "DMAR: IOMMU enabled")),
]


@pytest.mark.parametrize(("verdict", "text"), IOMMU)
def test_iommu(verdict: str, text: str) -> None:
    assert worst(host(("dmesg", text), ("nvidia-smi-topo", PCIE_PAIR)), "pcie.iommu") == verdict


@pytest.mark.parametrize(("kind", "verdict"), [("DMA", "warn"), ("DMA-FQ", "warn"), ("identity", "pass")])
def test_iommu_group_of_the_gpus(kind: str, verdict: str) -> None:
    groups = "/sys/kernel/iommu_groups"
    files = {
        f"{groups}/7/type": f"{kind}\n",
        f"{groups}/7/devices/0000:17:00.0@": "/sys/devices/pci0000:16/0000:17:00.0",
        "/proc/cmdline": "root=/dev/sda1 quiet\n",
    }
    bundle = host(("iommu", json.dumps(files)), ("lspci", CARDS), ("nvidia-smi-topo", PCIE_PAIR))
    assert worst(bundle, "pcie.iommu") == verdict
    refused = log("nvidia 0000:65:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0 address=0xf4]")
    assert worst(added(bundle, "dmesg", refused), "pcie.iommu") == "warn"


A100_PCIE = Expectations(sku=skus()["a100-80gb-pcie"])

UPSTREAM = [
    pytest.param("LnkSta:\tSpeed 16GT/s, Width x16", "pass", id="whole"),
    pytest.param("LnkSta:\tSpeed 16GT/s (ok), Width x8 (downgraded)", "warn", id="switch trained x8"),
    pytest.param(
        "LnkCap:\tPort #1, Speed 16GT/s, Width x4\n\t\tLnkSta:\tSpeed 16GT/s, Width x4", "warn", id="built x4"
    ),
    pytest.param(
        "LnkCap:\tPort #1, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16",
        "note",
        id="slow",
    ),
]


@pytest.mark.parametrize(("status", "verdict"), UPSTREAM)
def test_ports_far_above_a_gpu(status: str, verdict: str) -> None:
    root, switch = port("00:01.1", "16", status=status), port("16:00.0", "17")
    assert worst(host(("lspci", root + switch + gpu("17:00.0"))), "pcie.upstream", A100_PCIE) == verdict


TREES = [
    pytest.param("-[0000:00]-+-00.0\n           \\-01.1-[16-17]----00.0-[17]----00.0\n", id="numbers"),
    pytest.param(
        "-+-[0000:80]---00.0  Intel Corporation Device 09a2\n"
        " \\-[0000:00]-+-00.0  Intel Corporation Ice Lake\n"
        "             +-01.1-[16-19]----00.0-[17-19]--+-00.0-[17]----00.0  NVIDIA Corporation GA100\n"
        "             |                               \\-01.0-[18]--\n"
        "             \\-1f.0  Intel Corporation Device a1c4\n",
        id="names",
    ),
]


@pytest.mark.parametrize("tree", TREES)
def test_places_that_only_a_tree_shows(tree: str) -> None:
    """Without the bus numbers of `lspci -v`, a drawn tree tells which ports are above a GPU."""
    status = "\t\tLnkCap:\tPort #1, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x4\n"
    root = f"00:01.1 PCI bridge [0604]: Intel Corporation [8086:347a]\n{status}"
    cards = (root + gpu("17:00.0")).replace("\n\n", "\n")
    assert worst(host(("lspci", cards)), "pcie.upstream", A100_PCIE) == "unknown"
    assert worst(host(("lspci", cards), ("lspci-tree", tree)), "pcie.upstream", A100_PCIE) == "warn"


def test_a_narrow_uplink_is_told_once_with_all_gpus_below(healthy: Bundle, want: Expectations) -> None:
    path = '"/sys/bus/pci/devices/0000:42:00.0/current_link_width": '
    found = of(examine(edited(healthy, ("pci", path + '"16"', path + '"8"')), want), "pcie.upstream")
    narrow = [finding for finding in found if finding.verdict is Verdict.WARN]
    assert [finding.subject for finding in narrow] == ["port 0000:42:00.0 above 0000:48:00.0, 0000:4c:00.0"]
    assert narrow[0].observed == "x8 of x16"


def test_a_virtual_machine_shows_no_port_above_its_gpu() -> None:
    folder = "/sys/bus/pci/devices/0000:00:05.0"
    values = {"vendor": "0x10de", "device": "0x2335", "class": "0x030200", "current_link_width": "16"}
    files = {f"{folder}/{name}": value for name, value in values.items()}
    files[f"{folder}@"] = "/sys/devices/pci0000:00/0000:00:05.0"
    want = Expectations(sku=skus()["h200-sxm5"])
    assert worst(host(("pci", json.dumps(files))), "pcie.upstream", want) == "skip"


COUNTERS = [
    ({"correctable": 3}, "note"),
    ({"correctable": 9000}, "warn"),
    ({"nonfatal": 2}, "note"),
    ({"fatal": 1}, "warn"),
    ({}, "pass"),
]


@pytest.mark.parametrize(("counts", "verdict"), COUNTERS)
def test_counted_errors(healthy: Bundle, want: Expectations, counts: dict[str, int], verdict: str) -> None:
    folder = "/sys/bus/pci/devices/0000:43:01.0"
    names = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}
    files = {
        f"{folder}/aer_dev_{kind}": f"RxErr 0\nTOTAL_ERR_{name} {counts.get(kind, 0)}\n"
        for kind, name in names.items()
    }
    assert worst(added(healthy, "pcie-errors", json.dumps(files)), "pcie.aer", want) == verdict


def test_status_bits_that_probing_sets_say_nothing() -> None:
    card = gpu("17:00.0").rstrip() + "\n\t\tUESta:\tDLP- SDES- TLP- FCP- CmpltTO- UnsupReq+ ACSViol-\n"
    quiet = host(("lspci", card), ("dmesg", log("usb 1-1: new device")))
    assert worst(quiet, "pcie.aer") == "pass"
    assert worst(edited(quiet, ("lspci", "TLP- FCP", "TLP+ FCP")), "pcie.aer") == "note"


# --- NVLink


def test_a_flattened_matrix_is_told_from_links_that_fail(healthy: Bundle, verdicts: Verdicts) -> None:
    flat = edited(healthy, ("nvidia-smi-topo", "NV12", "SYS"))
    assert verdicts(flat)["nvlink.topology"] == "note"
    assert verdicts(without(flat, "nvml", "nvidia-smi-nvlink"))["nvlink.topology"] == "fail"
    virtual = logged(without(flat, "nvml", "nvidia-smi-nvlink"), "Hypervisor detected: Microsoft Hyper-V")
    assert verdicts(virtual)["nvlink.topology"] == "warn"


BRIDGES = [
    (matrix("X NV12 SYS SYS", "NV12 X SYS SYS", "SYS SYS X NV12", "SYS SYS NV12 X"), "pass"),
    (matrix("X NV12 SYS", "NV12 X SYS", "SYS SYS X"), "note"),
    (matrix("X NV8", "NV8 X"), "warn"),
    (matrix("X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV12", "SYS SYS NV12 X"), "warn"),
    (matrix("X NODE", "NODE X"), "note"),
]


@pytest.mark.parametrize(("text", "verdict"), BRIDGES)
def test_bridged_cards(text: str, verdict: str) -> None:
    assert worst(host(("nvidia-smi-topo", text)), "nvlink.topology", A100_PCIE) == verdict


def test_a_product_without_nvlink_is_not_judged() -> None:
    want = Expectations(sku=replace(skus()["a100-80gb-pcie"], nvlink_links=0))
    assert worst(host(("nvidia-smi-topo", PCIE_PAIR)), "nvlink.topology", want) == "skip"


# --- HCAs


def ibstat(*ports: tuple[str, str, str, str], model: str = "MT4123", rate: int = 200) -> str:
    block = (
        "CA '{}'\n\tCA type: {}\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n\t\tRate: {}\n"
        "\t\tLink layer: {}\n"
    )
    return "".join(block.format(name, model, state, how, rate, layer) for name, state, how, layer in ports)


def ibstatus(state: str, how: str, layer: str) -> str:
    return (
        f"Infiniband device 'mlx5_3' port 1 status:\n\tdefault gid:\t fe80::1\n\tstate:\t\t {state}\n"
        f"\tphys state:\t {how}\n\trate:\t\t 200 Gb/sec (4X HDR)\n\tlink_layer:\t {layer}\n"
    )


def devinfo(state: str, layer: str) -> str:
    return (
        "hca_id:\tmlx5_2\n\ttransport:\t\t\tInfiniBand (0)\n\tvendor_part_id:\t\t\t4123\n\t\tport:\t1\n"
        f"\t\t\tstate:\t\t\t{state}\n\t\t\tlink_layer:\t\t{layer}\n"
    )


def files(state: str, how: str, drops: int = 0, rate: str = "200 Gb/sec (4X HDR)") -> str:
    folder = "/sys/class/infiniband/mlx5_0/ports/1"
    values = {"state": state, "phys_state": how, "rate": rate, "link_layer": "InfiniBand"}
    tree = {f"{folder}/{name}": f"{value}\n" for name, value in values.items()}
    tree[f"{folder}/counters/link_downed"] = f"{drops}\n"
    return json.dumps(
        {**tree, "/sys/class/net/lo/operstate": "unknown\n", "/sys/class/net/ens3/operstate": "up\n"}
    )


UP = ("mlx5_0", "Active", "LinkUp", "InfiniBand")
UP_ETHERNET = ("mlx5_0", "Active", "LinkUp", "Ethernet")

PORTS = [
    ("ibstat", ibstat(UP), "pass"),
    ("ibstat", ibstat(UP, ("mlx5_1", "Down", "Polling", "InfiniBand")), "warn"),
    ("ibstat", ibstat(UP, ("mlx5_1", "Initializing", "LinkUp", "InfiniBand")), "warn"),
    ("ibstat", ibstat(UP_ETHERNET, ("mlx5_1", "Down", "Disabled", "Ethernet")), "warn"),
    ("ibstat", ibstat(UP, ("mlx5_1", "Down", "Disabled", "Ethernet")), "note"),
    (
        "ibstat",
        ibstat(UP_ETHERNET) + ibstat(("mlx5_4", "Down", "Disabled", "Ethernet"), model="MT4117", rate=40),
        "note",
    ),
    ("ibstat", ibstat(UP, ("mlx5_1", *UP[1:])) + ibstat(("mlx5_2", *UP[1:]), rate=100), "warn"),
    ("ibstatus", ibstatus("4: ACTIVE", "5: LinkUp", "InfiniBand"), "pass"),
    ("ibstatus", ibstatus("1: DOWN", "2: Polling", "InfiniBand"), "warn"),
    ("ibstatus", ibstatus("1: DOWN", "3: Disabled", "Ethernet"), "note"),
    ("ibv-devinfo", devinfo("PORT_ACTIVE (4)", "InfiniBand"), "pass"),
    ("ibv-devinfo", devinfo("PORT_DOWN (1)", "InfiniBand"), "warn"),
    ("ibv-devinfo", "No IB devices found\n", "skip"),
    ("rdma-link", "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ib0\n", "pass"),
    ("rdma-link", "link mlx5_0/1 state DOWN physical_state POLLING netdev ib0\n", "warn"),
    ("ibdev2netdev", "mlx5_0 port 1 ==> ibp12s0 (Down)\n", "warn"),
    ("network", files("4: ACTIVE", "5: LinkUp"), "pass"),
    ("network", files("1: DOWN", "3: Disabled"), "warn"),
    ("network", json.dumps({"/sys/class/net/lo/operstate": "unknown\n"}), "skip"),
]


@pytest.mark.parametrize(("source", "text", "verdict"), PORTS)
def test_ports(source: str, text: str, verdict: str) -> None:
    assert worst(host((source, text)), "ib.ports") == verdict


READABLE = [
    (
        "ibstat",
        ibstat(UP) + "ibpanic: [77] main: stat of IB device 'mlx5_1' failed: No such file or directory\n",
        "note",
    ),
    ("ibstat", "ibwarn: [9] mad_rpc_open_port: can't open UMAD port (mlx5_2:1)\n", "note"),
    ("ibv-devinfo", "Failed to get IB devices list: Function not implemented\n", "note"),
    ("lspci", "5e:00.0 Infiniband controller [0207]: Mellanox Technologies MT28908 [15b3:101b]\n", "warn"),
    ("ibstat", ibstat(UP), "pass"),
]


@pytest.mark.parametrize(("source", "text", "verdict"), READABLE)
def test_hcas_that_cannot_be_asked(source: str, text: str, verdict: str) -> None:
    nothing = ("network", json.dumps({"/sys/class/net/lo/operstate": "unknown\n"}))
    assert worst(host((source, text), nothing), "ib.readable") == verdict


FLAPS = [
    (
        "dmesg",
        log("mlx5_core 0000:5e:00.0 ibp94s0: Link down", "mlx5_core 0000:5e:00.0 ibp94s0: Link up") * 2,
        "warn",
    ),
    ("dmesg", log("mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged") * 3, "warn"),
    (
        "dmesg",
        log(
            "bnxt_en 0000:41:00.0 ens5f0np0: NIC Link is Down", "bnxt_en 0000:41:00.0 ens5f0np0: NIC Link is Down"
        ),
        "warn",
    ),
    ("dmesg", log("mlx5_core 0000:5e:00.0 ens1np0: Link down"), "note"),
    (
        "rdma-link",
        "link mlx5_4/1 state ACTIVE physical_state LINK_UP\nlink mlx5_4/1 state DOWN physical_state POLLING\n",
        "warn",
    ),
    ("nccl-log", f"{NCCL} WARN NET/IB : mlx5_1:1 Got async event : port error\n", "warn"),
    ("nccl-log", "n1:5:6 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : Got async event : port error\n", "warn"),
    ("network", files("4: ACTIVE", "5: LinkUp", drops=1), "pass"),
    ("network", files("4: ACTIVE", "5: LinkUp", drops=41), "warn"),
    ("network", json.dumps({"/sys/class/net/lo/operstate": "unknown\n"}), "skip"),
]


@pytest.mark.parametrize(("source", "text", "verdict"), FLAPS)
def test_links_that_flap(source: str, text: str, verdict: str) -> None:
    assert worst(host((source, text)), "ib.flapping") == verdict


def test_links_come_and_go_while_a_host_starts() -> None:
    lines = "".join(f"[   {20 + n}.000000] mlx5_core 0000:5e:00.0 ens1np0: Link down\n" for n in range(3))
    assert worst(host(("dmesg", lines), ("ibstat", ibstat(UP))), "ib.flapping") == "pass"


DISABLED = f"{NCCL} INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
ENABLED = f"{NCCL} INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'\n"
LOADED = "nvidia_peermem 16384 0\nnvidia 56000000 10 nvidia_peermem\nmlx5_ib 450560 0\n"
NOT_LOADED = "nvidia 56000000 10\nib_core 442368 8 mlx5_ib\nmlx5_ib 450560 0\n"

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"

PEERMEM = [
    ((("nccl-log", DISABLED), ("lsmod", NOT_LOADED)), "warn"),
    ((("nccl-log", DISABLED),), "warn"),
    ((("nccl-log", ENABLED), ("lsmod", LOADED)), "pass"),
    ((("nccl-log", ENABLED), ("lsmod", NOT_LOADED)), "pass"),
    ((("lsmod", LOADED),), "pass"),
    ((("lsmod", NOT_LOADED),), "note"),
    ((("lsmod", NOT_LOADED), ("proc-driver-nvidia-version", CLOSED)), "warn"),
    (
        (("dmesg", log("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client")),),
        "warn",
    ),
    ((("dmesg", log("nv_peer_mem: Unknown symbol ib_unregister_peer_memory_client (err 0)")),), "warn"),
    ((("modprobe", "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"),), "warn"),
    ((("dmesg", log("nvidia-peermem nv_mem_put_pages:77 ERROR detected invalid context, skipping") * 4),), "warn"),
    (
        (("network", json.dumps({"/sys/class/net/lo/operstate": "up\n"})), ("lsmod", "nvidia 56000000 10\n")),
        "skip",
    ),
]


@pytest.mark.parametrize(("captures", "verdict"), PEERMEM)
def test_peermem(captures: tuple[tuple[str, str], ...], verdict: str) -> None:
    assert worst(host(*captures), "rdma.peermem") == verdict


VERSIONS = [
    ("NCCL version 2.21.5+cuda12.4\n" + DISABLED, LOADED, "warn", "note"),
    ("NCCL version 2.27.7+cuda12.9\n" + DISABLED, LOADED, "pass", "warn"),
    ("INFO 11-20 09:00:00 [pynccl.py:69] vLLM is using nccl==2.22.3\n" + DISABLED, LOADED, "warn", "note"),
    ("NCCL version 2.21.5+cuda12.4\n" + DISABLED, NOT_LOADED, "note", "warn"),
    ("NCCL version 2.21.5+cuda12.4\n" + ENABLED, LOADED, "pass", "pass"),
]


@pytest.mark.parametrize(("text", "modules", "verdict", "peermem"), VERSIONS)
def test_an_nccl_that_does_not_know_the_module(text: str, modules: str, verdict: str, peermem: str) -> None:
    bundle = host(("nccl-log", text), ("lsmod", modules))
    assert (worst(bundle, "rdma.nccl-version"), worst(bundle, "rdma.peermem")) == (verdict, peermem)


# --- NCCL


def environment(**variables: str) -> tuple[str, str]:
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    return (
        "nccl-settings",
        json.dumps({"/etc/qwenhost/vllm/a.env": lines, "/proc/version": "Linux version 6.8\n"}),
    )


SETTINGS = [
    (environment(NCCL_P2P_DISABLE="1"), NVLINK_PAIR, "warn"),
    (environment(NCCL_P2P_DISABLE="1"), PCIE_PAIR, "note"),
    (environment(NCCL_P2P_DISABLE="0"), NVLINK_PAIR, "pass"),
    (environment(NCCL_P2P_LEVEL='"loc"'), NVLINK_PAIR, "warn"),
    (environment(NCCL_P2P_LEVEL="NVL"), NVLINK_PAIR, "pass"),
    (environment(NCCL_SHM_DISABLE="1"), PCIE_PAIR, "warn"),
    (environment(NCCL_SOCKET_IFNAME="bond0"), NVLINK_PAIR, "warn"),
    (environment(NCCL_SOCKET_IFNAME="=ens"), NVLINK_PAIR, "warn"),
    (environment(NCCL_SOCKET_IFNAME="ens"), NVLINK_PAIR, "pass"),
    (environment(NCCL_SOCKET_IFNAME="^docker,lo"), NVLINK_PAIR, "pass"),
    (environment(GLOO_SOCKET_IFNAME="ens"), NVLINK_PAIR, "warn"),
    (environment(NCCL_IB_HCA="mlx5_9"), NVLINK_PAIR, "warn"),
    (environment(NCCL_IB_HCA="=mlx5_0:1"), NVLINK_PAIR, "pass"),
    (environment(NCCL_IB_DISABLE="1"), NVLINK_PAIR, "warn"),
    (environment(NCCL_PROTO="LL128"), NVLINK_PAIR, "warn"),
    (environment(NCCL_PROTO="^LL128"), NVLINK_PAIR, "pass"),
    (environment(CUDA_LAUNCH_BLOCKING="1"), NVLINK_PAIR, "warn"),
    (environment(NCCL_DEBUG="INFO", HF_HUB_OFFLINE="1"), NVLINK_PAIR, "pass"),
    (("nccl-environment", "export NCCL_P2P_DISABLE=1\n"), NVLINK_PAIR, "warn"),
    (("nccl-environment", "      - NCCL_P2P_LEVEL=LOC\n"), NVLINK_PAIR, "warn"),
    (("nccl-environment", 'Environment="NCCL_P2P_DISABLE=1" "A=b"\n'), NVLINK_PAIR, "warn"),
    (("nccl-environment", "# export NCCL_P2P_DISABLE=1\nexport NCCL_DEBUG=WARN\n"), NVLINK_PAIR, "unknown"),
    (("nccl-log", f"{NCCL} INFO NCCL_P2P_DISABLE set by environment to 1.\n"), NVLINK_PAIR, "warn"),
    (("nccl-log", f"{NCCL} INFO NCCL_SOCKET_IFNAME set to eth9\n"), NVLINK_PAIR, "warn"),
    (
        ("vllm-journal", f"Dec 02 10:00:00 h vllm@a[9]: {NCCL} INFO NCCL_P2P_LEVEL set by environment to LOC\n"),
        NVLINK_PAIR,
        "warn",
    ),
]


@pytest.mark.parametrize(("source", "topology", "verdict"), SETTINGS)
def test_settings_of_nccl(source: tuple[str, str], topology: str, verdict: str) -> None:
    network = ("network", files("4: ACTIVE", "5: LinkUp"))
    assert worst(host(source, ("nvidia-smi-topo", topology), network), "nccl.environment") == verdict


CHANNELS = [
    ("SHM/direct/direct", NVLINK_PAIR, "warn"),
    ("SHM/direct/direct", PCIE_PAIR, "note"),
    ("P2P/CUMEM/read", NVLINK_PAIR, "note"),
    ("NET/Socket/0", PCIE_PAIR, "warn"),
    ("NET/IB/0/GDRDMA", PCIE_PAIR, "note"),
]


@pytest.mark.parametrize(("way", "topology", "verdict"), CHANNELS)
def test_channels_that_leave_a_better_way(way: str, topology: str, verdict: str) -> None:
    network = ("network", files("4: ACTIVE", "5: LinkUp"))
    line = f"{NCCL} INFO Channel 00/0 : 0[0] -> 1[1] via {way}\n"
    bundle = host(("nccl-log", line), ("nvidia-smi-topo", topology), network)
    assert worst(bundle, "nccl.environment") == verdict


WARNINGS = [
    ("P2P is disabled between NVLINK connected GPUs 2 and 3. This should not be the case", "warn"),
    ("Mismatched NCCL version detected : rank 0 version 22005 rank 1 version 22304", "warn"),
    ("Cuda failure 217 'peer access is not supported between these two devices'", "warn"),
    ("Bootstrap : no socket interface found", "warn"),
    ("socketPollConnect: connect returned No route to host, exceeded error retry count (35)", "warn"),
    ("Call to ibv_create_qp failed with error Cannot allocate memory errno 12", "warn"),
    ("Call to ibv_reg_mr failed with error Bad address", "warn"),
    ("NET/IB : Got completion from peer 10.0.0.2<40112> with status=12 opcode=0 len=0 vendor err 129", "warn"),
    ("Could not open XML topology file /opt/topo.xml : No such file or directory", "warn"),
    ("Error while creating shared memory segment /dev/shm/nccl-x1 (size 9637888)", "note"),
    ("Cuda failure 802 'system not yet initialized'", "note"),
    ("Something that nobody has written down", "note"),
]


@pytest.mark.parametrize(("line", "verdict"), WARNINGS)
def test_warnings_of_nccl(line: str, verdict: str) -> None:
    assert (
        worst(host(("nccl-log", f"n2:31:45 [1] misc/x.cc:77 NCCL WARN {line}\n")), "nccl.environment") == verdict
    )


def test_a_start_that_nccl_ended_without_a_warning_says_where_to_look() -> None:
    text = (
        "(APIServer pid=1) INFO 11-20 09:00:00 [api_server.py:1] vLLM API server version 0.11.0\n"
        "(EngineCore_DP0 pid=9) ERROR 11-20 09:01:00 [core.py:1] RuntimeError: NCCL error: unhandled cuda error\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    found = of(examine(host(("vllm-log", text)), Expectations()), "nccl.environment")
    assert [finding.verdict for finding in found] == [Verdict.WARN]
    assert "NCCL_DEBUG=INFO" in found[0].remedy.text


def test_the_healthy_host_answers_all_of_it(healthy: Bundle, want: Expectations) -> None:
    subjects = ("pcie.", "nvlink.", "ib.", "rdma.", "nccl.")
    found = [finding for finding in examine(healthy, want) if finding.check.startswith(subjects)]
    assert {finding.verdict for finding in found} <= {Verdict.PASS, Verdict.SKIP}
    assert only(healthy, "network").captures
