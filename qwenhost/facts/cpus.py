"""Processors: those that are there and those in use, and how the kernel sets their frequency."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.keyed import matching
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file, recorded, tree

CPU = "/sys/devices/system/cpu"

FILES = tree(
    "cpus",
    f"{CPU}/online",
    f"{CPU}/present",
    f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor",
    f"{CPU}/cpu0/cpufreq/scaling_driver",
)
POWER = recorded("cpupower", looks_like=r"^\s*The governor \"\w+\" may decide")
CMDLINE = file("kernel-args", "/proc/cmdline", looks_like=r"\ABOOT_IMAGE=\S[^\n]*\broot=\S[^\n]*\n?\Z")


@dataclass(frozen=True)
class Cpus:
    """CPU lists as the kernel prints them, such as "0-127"."""

    online: str
    present: str


@dataclass(frozen=True)
class Governors:
    """Governor -> CPUs that have it, empty where the kernel sets no frequency; `driver`: such as intel_pstate."""

    cpus: Mapping[str, int]
    driver: str = ""


@dataclass(frozen=True)
class KernelArgs:
    """Arguments that the kernel was started with, in order."""

    args: tuple[str, ...]


@parses(FILES)
def cpus(capture: Capture) -> Cpus:
    """Parse the kernel's lists."""
    files = json.loads(capture.text)
    return Cpus(files[f"{CPU}/online"].strip(), files[f"{CPU}/present"].strip())


@parses(FILES)
def governors(capture: Capture) -> Governors:
    """Parse the governor of each CPU; a virtual machine has none."""
    files = json.loads(capture.text)
    if f"{CPU}/online" not in files:
        raise Unparsable("no list of CPUs in it")
    found = Counter(word for _, word in matching(capture, rf"{CPU}/cpu\d+/cpufreq/scaling_governor"))
    return Governors(found, str(files.get(f"{CPU}/cpu0/cpufreq/scaling_driver", "")).strip())


@parses(POWER, trust=1)
def from_cpupower(capture: Capture) -> Governors:
    """Parse `cpupower frequency-info`, of one CPU or of all."""
    found = Counter(re.findall(r"The governor \"(\w+)\" may decide", capture.text))
    driver = re.search(r"^\s*driver: (\S+)", capture.text, re.MULTILINE)
    return Governors(found, driver[1] if driver else "")


@parses(CMDLINE)
def kernel_args(capture: Capture) -> KernelArgs:
    """Parse /proc/cmdline, which on every host names a root, a console or an image."""
    if not re.search(r"(?:^|\s)(?:BOOT_IMAGE|root|console|initrd|rdinit|init)=\S", capture.text):
        raise Unparsable("no kernel argument in it")
    return KernelArgs(tuple(capture.text.split()))
