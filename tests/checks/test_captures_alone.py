"""One small capture of a host that is not known otherwise: what it shows is told, whatever else is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict
from qwenhost.transports.recorded import read
from tests.checks.conftest import added

Verdicts = Callable[..., dict[str, str]]

NOTHING = Bundle("host", ())

POWERED = "4c:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)\n"
LINK = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed {}GT/s, Width x{}\n"
PORT = (
    "4b:00.0 PCI bridge: Broadcom PEX 8796 (rev b0)\n\tBus: primary=4a, secondary=4c, subordinate=4c\n"
    "\t\tLnkCap:\tPort #1, Speed 8GT/s, Width x16\n\t\tLnkSta:\tSpeed 8GT/s, Width x16\n"
)
DESKTOP = POWERED.replace("GA100 [A100 PCIe 80GB]", "GA102 [GeForce RTX 3090]")
ADDRESSES = "\tRegion 1: Memory at {} (64-bit, prefetchable)\n"

NO_SPACE = "[    1.5] pci 0000:4c:00.0: BAR {}: no space for [mem size {} 64bit pref]\n"
NEWER = "[    1.5] pci 0000:4c:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: {}\n"
HUGE, SMALL = "0x2000000000", "0x00200000"

UNLOCKED = (
    "n1:9:10 [3] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n"
)
UCX = "[17.1] [n1:9 :0] ib_md.c:379 UCX ERROR ibv_reg_mr(address=0x7f1) failed: Cannot allocate memory"
ADVISED = f"{UCX} : Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)\n"

ALONE = [
    ("lspci", POWERED + LINK.format(16, 8), "pcie.link-width", "fail"),
    ("lspci", DESKTOP + LINK.format(16, 8), "pcie.link-width", "note"),
    ("lspci", POWERED + LINK.format(16, 16), "pcie.link-width", None),
    ("lspci", POWERED + ADDRESSES.format("<unassigned>"), "pcie.bars", "fail"),
    ("lspci", POWERED + ADDRESSES.format("28000000000"), "pcie.bars", "unknown"),
    ("dmesg", NO_SPACE.format(1, HUGE), "pcie.bars", "fail"),
    ("dmesg", NO_SPACE.format(1, SMALL), "pcie.bars", "unknown"),
    ("dmesg", NO_SPACE.format(7, HUGE), "pcie.bars", "unknown"),
    ("dmesg", NEWER.format("can't assign; no space"), "pcie.bars", "fail"),
    (
        "dmesg",
        NEWER.format("failed to assign")
        + "[    1.6] pci 0000:4c:00.0: BAR 1 [mem 0x20000000000-0x21fffffffff 64bit pref]: assigned\n",
        "pcie.bars",
        "unknown",
    ),
    (
        "lsmod",
        "Module                  Size  Used by\nnouveau              2306048  0\n",
        "driver.nouveau",
        "fail",
    ),
    ("lsmod", "Module                  Size  Used by\nnouveau  1 0\nnvidia  1 0\n", "driver.nouveau", "unknown"),
    (
        "module-log",
        "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-60-generic\n",
        "driver.module-for-kernel",
        "fail",
    ),
    ("locked-memory-log", UNLOCKED, "host.memlock", "warn"),
    ("locked-memory-log", ADVISED, "host.memlock", "warn"),
    ("nccl-environment", 'environment:\n  NCCL_P2P_DISABLE: "1"\n', "nccl.environment", "warn"),
    ("nccl-environment", '- name: NCCL_P2P_DISABLE\n  value: "1"\n', "nccl.environment", "warn"),
    ("nccl-environment", '- name: NCCL_P2P_DISABLE\n  value: "0"\n', "nccl.environment", "unknown"),
]


@pytest.mark.parametrize(("source", "text", "check", "verdict"), ALONE)
def test_a_capture_alone(source: str, text: str, check: str, verdict: str | None, verdicts: Verdicts) -> None:
    assert verdicts(added(NOTHING, source, text), Expectations()).get(check) == verdict


def test_a_bar_that_the_driver_reports_is_there(verdicts: Verdicts) -> None:
    sizes = "    {} Memory Usage\n        Total : 131072 MiB\n"
    query = f"GPU 00000000:4C:00.0\n{sizes.format('FB')}{sizes.format('BAR1')}"
    bundle = added(added(NOTHING, "dmesg", NO_SPACE.format(1, HUGE)), "nvidia-smi-q", query)
    assert "pcie.bars" not in verdicts(bundle, Expectations())


def test_a_slow_port_above_a_gpu_counts_without_load() -> None:
    """The link cannot be faster under load than the port above it."""
    board = Expectations(sku=skus()["a100-80gb-pcie"])
    slow = Bundle("host", (Capture("lspci", "ok", PORT + POWERED + LINK.format(8, 16)),))
    found = {f.check: f for f in examine(slow, board)}["pcie.link-speed"]
    assert (found.verdict.value, "0000:4b:00.0" in found.observed) == ("warn", True)
    idle = Bundle(
        "host", (Capture("lspci", "ok", PORT.replace("8GT", "16GT") + POWERED + LINK.format("2.5", 16)),)
    )
    assert {f.check: f.verdict.value for f in examine(idle, board)}["pcie.link-speed"] == "note"


def test_locked_memory_is_told_once(verdicts: Verdicts) -> None:
    both = added(added(NOTHING, "nccl-log", UNLOCKED), "locked-memory-log", UNLOCKED)
    found = verdicts(both, Expectations())
    assert (found["host.memlock"], found["nccl.environment"]) == ("warn", "note")


PICKED = "[    4.5] mlx5_core 0000:0c:00.0: firmware version: 20.31.1014\n"
BOOTED = "[    0.0] Linux version 6.8.0-60-generic (buildd@host) #63-Ubuntu SMP\n"
OTHERS = "".join(f"[{second:5}.5] systemd[1]: Started a service.\n" for second in range(100))


@pytest.mark.parametrize(
    ("sent", "whole"),
    [
        (PICKED, False),
        (PICKED * 200, False),
        (BOOTED + PICKED, True),
        (OTHERS, True),
    ],
)
def test_lines_picked_out_of_a_kernel_log_show_no_absence(sent: str, whole: bool, tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(sent)
    passed = {f.check for f in examine(read(str(tmp_path)), Expectations()) if f.verdict is Verdict.PASS}
    absent = {
        *("gpu.xid", "gpu.gsp", "host.oom", "host.hung-tasks", "host.machine-check", "host.file-max", "pcie.aer"),
        *("nvlink.errors", "fabric.switch-errors", "driver.nouveau", "driver.secure-boot"),
    }
    assert passed & absent == (absent if whole else set())


CUT = (
    '<nvidia_smi_log>\n<attached_gpus>2</attached_gpus>\n<gpu id="00000000:4C:00.0">\n<remapped_rows>\n'
    "<remapped_row_pending>{}</remapped_row_pending>\n</remapped_rows>\n</gpu>\n"
    '<gpu id="00000000:4D:00.0">\n<remapped_rows>\n<remapped_row_pe'
)


@pytest.mark.parametrize(("pending", "verdict"), [("Yes", "warn"), ("No", None)])
def test_whole_gpus_of_xml_that_was_cut_are_read(pending: str, verdict: str | None, verdicts: Verdicts) -> None:
    bundle = added(NOTHING, "nvidia-smi-qx", CUT.format(pending))
    assert verdicts(bundle, Expectations()).get("memory.row-remap-pending") == verdict
    assert verdicts(added(NOTHING, "nvidia-smi-qx", CUT[:60]), Expectations())["gpu.on-bus"] == "unknown"


STATUS = (
    "● vllm@chat.service - vLLM chat\n     Loaded: loaded (/etc/systemd/system/vllm@.service)\n     Active: {}\n"
)
ANOTHER = "● other.service - Another\n     Active: failed (Result: exit-code)\n"


@pytest.mark.parametrize(
    ("active", "verdict"),
    [
        ("activating (auto-restart) (Result: exit-code) since Tue 2026-12-01", "fail"),
        ("failed (Result: exit-code) since Tue 2026-12-01", "fail"),
        ("active (running) since Tue 2026-12-01", None),
    ],
)
def test_what_systemctl_says_of_a_service(active: str, verdict: str | None, verdicts: Verdicts) -> None:
    bundle = added(NOTHING, "vllm-log", STATUS.format(active) + ANOTHER)
    assert verdicts(bundle, Expectations()).get("vllm.start") == verdict


UNKNOWN_BOARD = (
    "[    9.1] NVRM: The NVIDIA GPU 0000:4c:00.0 (PCI ID: 10de:2901)\n"
    "[    9.1] NVRM: installed in this system is not supported by {}\n"
)
NO_DEVICE = "modprobe: ERROR: could not insert 'nvidia': No such device\n"


@pytest.mark.parametrize(
    "by", ["the\n[    9.1] NVRM: NVIDIA 550.90.07 driver release.", "open\nNVRM: nvidia.ko because"]
)
def test_a_board_that_the_driver_does_not_know(by: str, verdicts: Verdicts) -> None:
    assert verdicts(added(NOTHING, "dmesg", UNKNOWN_BOARD.format(by)), Expectations())["gpu.count"] == "fail"


def test_a_module_that_found_no_device(verdicts: Verdicts) -> None:
    alone = added(NOTHING, "module-log", NO_DEVICE)
    assert verdicts(alone, Expectations())["driver.present"] == "fail"
    later = added(alone, "nvidia-smi-L", "GPU 0: NVIDIA A30 (UUID: GPU-1)\n")
    assert "driver.present" not in verdicts(later, Expectations())
