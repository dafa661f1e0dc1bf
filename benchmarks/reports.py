"""A bug report of a given size, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

HEALTHY = Path(__file__).resolve().parents[1] / "tests" / "bundles" / "a100-sxm4-80gb-x8"

RULE = "_" * 44

SECTIONS = {
    "*** /proc/driver/nvidia/version": "proc-driver-nvidia-version.txt",
    "/usr/bin/nvidia-smi -q": "nvidia-smi-q.txt",
    "/usr/bin/nvidia-smi topo -m": "nvidia-smi-topo.txt",
}

CHATTER = (
    "systemd[1]: Started run {} of the timer.",
    "usb 1-1: new high-speed USB device number {} using xhci_hcd",
    "docker0: port {}(veth4a1b2c3) entered blocking state",
    "mlx5_core 0000:0c:00.0: Port module event: module {}, Cable plugged",
    "EXT4-fs (nvme0n1p{}): mounted filesystem with ordered data mode",
    "pcieport 0000:40:01.1: AER: Corrected error received: 0000:41:{:02}.0",
)


def bug_report(size: int, seed: int = 1) -> bytes:
    """Return a report of about `size` bytes: the healthy host's answers and a long kernel log."""
    parts = [f"{RULE}\n\nStart of NVIDIA bug report log file.\n"]
    parts += [f"\n{RULE}\n\n{title}\n\n{(HEALTHY / name).read_text()}\n" for title, name in SECTIONS.items()]
    parts.append(f"\n{RULE}\n\n/usr/bin/dmesg\n\n")
    length = sum(map(len, parts))
    for line in _kernel_log(random.Random(seed)):
        parts.append(line)
        length += len(line)
        if length >= size:
            return "".join([*parts, f"\n{RULE}\n"]).encode()
    raise AssertionError("the log has no end")


def _kernel_log(dice: random.Random) -> Iterator[str]:
    seconds = 0.0
    while True:
        seconds += dice.random()
        if dice.random() < 0.0002:
            yield f"[{seconds:12.6f}] NVRM: Xid (PCI:0000:4e:00): 31, pid={dice.randrange(9999)}, name=python\n"
        yield f"[{seconds:12.6f}] {dice.choice(CHATTER).format(dice.randrange(99))}\n"
