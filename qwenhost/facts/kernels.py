"""Which kernels are installed, which of them have the driver's module, and which one runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, file, recorded
from qwenhost.records.versions import parts

ANCHOR = "/proc/version"
BOOT = "/boot"
_MODULE = r"nvidia(?:-current|-tesla[\w-]*|-legacy[\w-]*)?\.ko(?:\.\w+)?"
_WANTED = ("-name", "vmlinuz-*", "-o", "-name", "vmlinuz", "-o", "-name", "nvidia*.ko*")

INSTALLED = command(
    "kernels-installed",
    *("find", ANCHOR, BOOT, "/lib/modules", "-xdev", "-maxdepth", "6"),
    *(
        "(",
        "-path",
        ANCHOR,
        "-o",
        *_WANTED,
        "-o",
        "-name",
        "build",
        "-xtype",
        "d",
        "-o",
        "-path",
        BOOT,
        "!",
        "-readable",
        ")",
    ),
    good_exits=(0, 1),
    looks_like=rf"^(?:/usr)?/lib/modules/\S+/{_MODULE}\s*$|^/boot/vmlinuz-\d\S*\s*$",
)
"""Paths only, no file is read. Exit code 1: a folder is not there. /boot itself is listed where it is closed."""

RUNNING = file("kernel-version", ANCHOR, looks_like=r"^Linux version \d\S* \(")
UNAME = recorded("uname", r"^Linux \S+ \d+\.\d+\.\d+\S* #\d+")


@dataclass(frozen=True)
class Kernel:
    """One release such as 6.8.0-60-generic. `bootable`: its image is there; `module`: path of the driver's."""

    release: str
    bootable: bool
    module: str
    headers: bool

    @property
    def flavour(self) -> str:
        """What stands behind the numbers, such as "-generic": kernels of one flavour replace one another."""
        return re.sub(r"^[\d.]+-?[\d.]*", "", self.release)


@dataclass(frozen=True)
class InstalledKernels:
    """All kernels that have an image or a folder of modules."""

    kernels: tuple[Kernel, ...]

    def of(self, release: str) -> Kernel | None:
        """Return one kernel."""
        return next((kernel for kernel in self.kernels if kernel.release == release), None)

    def next_boot(self, running: str) -> Kernel | None:
        """Return the newest bootable kernel of the running one's flavour; None when no image was seen."""
        mine = self.of(running)
        bootable = [kernel for kernel in self.kernels if kernel.bootable]
        alike = [kernel for kernel in bootable if mine is None or kernel.flavour == mine.flavour]
        return max(alike or bootable, key=lambda kernel: parts(kernel.release), default=None)


@dataclass(frozen=True)
class RunningKernel:
    """Release of the kernel that runs, such as 6.8.0-60-generic."""

    release: str


@parses(INSTALLED)
def installed_kernels(capture: Capture) -> InstalledKernels:
    """Parse the paths; raises Unparsable for an answer that lacks even the path that is always there."""
    paths = [line.strip().removeprefix("/usr") for line in capture.text.splitlines()]
    if ANCHOR not in paths and not INSTALLED.recognises(capture.text):
        raise Unparsable("the listing is empty")
    if BOOT in paths:
        raise Unparsable("/boot cannot be read")
    releases = {
        found[1] for path in paths if (found := re.match(r"(?:/boot/vmlinuz-|/lib/modules/)(\d[^/\s]*)", path))
    }
    return InstalledKernels(
        tuple(_kernel(release, paths) for release in sorted(releases) if "rescue" not in release)
    )


def _kernel(release: str, paths: Iterable[str]) -> Kernel:
    folder = f"/lib/modules/{release}/"
    inside = [path.removeprefix(folder) for path in paths if path.startswith(folder)]
    modules = [path for path in inside if re.fullmatch(rf"(?:.*/)?{_MODULE}", path)]
    bootable = "vmlinuz" in inside or f"/boot/vmlinuz-{release}" in paths
    return Kernel(release, bootable, folder + modules[0] if modules else "", "build" in inside)


@parses(RUNNING)
def running_kernel(capture: Capture) -> RunningKernel:
    """Parse /proc/version."""
    return _release(capture, r"Linux version (\d\S*)")


@parses(UNAME, trust=1)
def running_kernel_from_uname(capture: Capture) -> RunningKernel:
    """Parse `uname -a`."""
    return _release(capture, r"^Linux \S+ (\d+\.\d+\.\d+\S*) #")


def _release(capture: Capture, pattern: str) -> RunningKernel:
    found = re.search(pattern, capture.text, re.MULTILINE)
    if not found:
        raise Unparsable("no kernel release in it")
    return RunningKernel(found[1])
