"""`python -m benchmarks.converge [--hosts N] [--rounds N] [--pyinfra PROGRAM]`: first and unchanged converge.

Simulated hosts of this machine (root), made for it and ended after it. Every round takes each way once, the order
changing; before its first converge the hosts are as they were when they came up.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from benchmarks.converge.ways import Way, on_all, settings, ways
from qwenhost.lab import lifecycle
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab, LabHost
from qwenhost.lab.lifecycle import Simulated
from qwenhost.lab.simulator import install

LAB = Lab("bench")
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
FILES = (
    "/etc/sysctl.d/90-* /etc/security/limits.d/90-* /etc/tmpfiles.d/baseline.conf /etc/tmpfiles.d/qwenhost-*"
    " /etc/qwenhost /var/lib/qwenhost /usr/local/lib/qwenhost"
    " /etc/systemd/system/qwenhost-* /etc/systemd/system/*.wants/qwenhost-*"
)
UNIT = "qwenhost-tuning"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pyinfra", default="", help="pyinfra's program; without it that way is left out")
    asked = parser.parse_args()
    lifecycle.up(LAB, asked.hosts, Simulated("a100-sxm4-80gb", 1), install)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _measure(LAB.hosts(), asked.rounds, asked.pyinfra, Path(folder))
    finally:
        lifecycle.down(LAB)


def _measure(hosts: list[LabHost], rounds: int, pyinfra: str, folder: Path) -> None:
    reset = _reset(hosts[0])
    taken: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    contenders = ways(hosts, folder, pyinfra)
    for number in range(rounds):
        for way in contenders if number % 2 == 0 else reversed(contenders):
            on_all(hosts, reset)
            for state in ("first", "unchanged"):
                taken[way.name, state].append(_cost(way))
    for state in ("first", "unchanged"):
        _tell(len(hosts), state, {way.name: taken[way.name, state] for way in contenders})


def _reset(host: LabHost) -> str:
    """A script that brings a host back to how it is now."""
    keys = " ".join(settings()["sysctl"])
    read = f"sysctl {keys}; cat {THP}"
    said = subprocess.run([*ssh_command(host, "root"), read], capture_output=True, text=True, check=True).stdout
    *lines, mode = said.splitlines()
    values = (line.split(" = ", 1) for line in lines)
    live = [f"sysctl -qw {key}='{value}'" for key, value in values]
    return "\n".join(
        [
            f"systemctl -q stop {UNIT} 2> /dev/null; rm -rf {FILES}; systemctl daemon-reload",
            *live,
            f"echo {mode.split('[')[-1].split(']')[0]} > {THP}",
        ]
    )


def _cost(way: Way) -> tuple[float, float]:
    """Wall time, and processor time of the controller, in seconds."""
    used, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    way.run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime


def _tell(hosts: int, state: str, taken: dict[str, list[tuple[float, float]]]) -> None:
    base = median(wall for wall, _ in taken["script"])
    for name, costs in taken.items():
        wall, cpu = (median(column) for column in zip(*costs, strict=True))
        times = f"{wall:.1f} s = {wall / base:.1f} x script, controller {cpu:.1f} s CPU"
        print(f"{state}, {hosts} hosts, {name}: {times}")


if __name__ == "__main__":
    main()
