"""What is above and between GPUs: ports, ACS, IOMMU, errors on the bus, NVLink."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict
from tests.checks.captures import A100_PCIE, NVLINK_PAIR, PCIE_PAIR, host, log, matrix, worst
from tests.checks.conftest import added, edited, logged, of, only, without

Verdicts = Callable[..., dict[str, str]]


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


def test_the_healthy_host_answers_all_of_it(healthy: Bundle, want: Expectations) -> None:
    subjects = ("pcie.", "nvlink.", "ib.", "rdma.", "nccl.")
    found = [finding for finding in examine(healthy, want) if finding.check.startswith(subjects)]
    assert {finding.verdict for finding in found} <= {Verdict.PASS, Verdict.SKIP}
    assert only(healthy, "network").captures
