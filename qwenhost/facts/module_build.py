"""How the driver's kernel module is built, signed and loaded: DKMS, `modinfo`, and what installers said."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source, command
from qwenhost.records.versions import PATTERN

_BUILD_FAILED = (
    r"Bad return status for module build on kernel:|[Mm]odule build .{0,300}failed|Error! .{0,300}dkms\.conf"
    r"|Error! Build of nvidia\S{0,80} failed|nvidia\S{0,80}[/ ]\S{0,80} (?:autoinstall|build) failed"
    r"|autoinstall on \S+ failed for .{0,200}nvidia|Unable to build the NVIDIA kernel module"
    r"|Error! Your kernel headers for kernel \S+ cannot be found"
    r"|kernel headers for this kernel (?:do|does) not seem to be installed"
)
_REJECTED = (
    r"Key was rejected by service"
    r"|could not insert ['\"]?nvidia['\"]?: (?:Required key not available|Operation not permitted)"
    r"|not signed by a key that is trusted by the kernel"
)
_UNFIT = (
    r"Module nvidia(?:-current)? not found in directory"
    r"|could not insert ['\"]?nvidia['\"]?: (?:Exec format error|Invalid module format|Unknown symbol)"
    r"|nvidia: version magic .{0,300} should be|nvidia: disagrees about version of symbol"
)

_NO_DEVICE = r"could not insert (?:module )?['\"]?nvidia(?:\.ko)?['\"]?: No such device"

STATUS = command(
    "dkms",
    "dkms",
    "status",
    looks_like=r"^nvidia[^\s,/:]*[/,] ?\d[\w.]*(?:, .*)?: (?:added|built|installed|broken)",
)
MODULE_LOG = Source(
    "module-log",
    "command",
    argv=(
        *("journalctl", "--no-pager", "--boot", "--output", "cat", "--lines", "500"),
        *("-t", "dkms", "-t", "modprobe", "-t", "systemd-modules-load", "-t", "systemd-udevd"),
    ),
    good_exits=(0, 1),
    looks_like=rf"{_BUILD_FAILED}|{_REJECTED}|{_UNFIT}|{_NO_DEVICE}",
)
"""Recorded: the output of a driver installation, of DKMS or of `modprobe`."""

MODINFO = command("modinfo", "modinfo", "nvidia", looks_like=r"^filename:\s+/\S*/nvidia\S*\.ko")


@dataclass(frozen=True)
class DkmsModule:
    """One line of `dkms status`: the state is added, built, installed or broken.

    `kernel`: empty when only added.
    """

    version: str
    kernel: str
    state: str


@dataclass(frozen=True)
class DkmsModules:
    """The NVIDIA modules under DKMS. `present` false: DKMS is not installed on the host."""

    present: bool
    modules: tuple[DkmsModule, ...] = ()

    def superseded(self, module: DkmsModule) -> bool:
        """Tell whether another version is installed for the same kernel, or for any where none is named."""
        return any(
            other.state == "installed" and other.version != module.version and module.kernel in ("", other.kernel)
            for other in self.modules
        )


@dataclass(frozen=True)
class ModuleLog:
    """Lines that tell why the module is not there; empty when all went well."""

    build_failures: tuple[str, ...]
    rejections: tuple[str, ...]
    unfit: tuple[str, ...] = ()
    """No module for this kernel, or one of another kernel."""
    version: str = ""
    """Driver version whose build failed, where a path names it."""
    kernel: str = ""
    """Kernel release for which the build failed, where it is named."""
    no_device: tuple[str, ...] = ()
    """The module was loaded and found no GPU that it may use."""


@dataclass(frozen=True)
class ModuleFile:
    """The module on disk that `modprobe nvidia` would load into the running kernel."""

    version: str
    path: str
    signer: str


@parses(STATUS, accepts=("ok", "missing"))
def modules_from_status(capture: Capture) -> DkmsModules:
    """Parse `dkms status` of either punctuation; a host without DKMS has no such modules."""
    if capture.status == "missing":
        return DkmsModules(present=False)
    rows = re.findall(
        r"^nvidia[^\s,/:]*[/,] ?([\d.]+)(?:, ([^,]+), [^:]+)?: (added|built|installed|broken)",
        capture.text,
        re.MULTILINE,
    )
    if not rows and capture.text.strip() and not re.search(r"^\S+[/,] ?\S+.*: \w+", capture.text, re.MULTILINE):
        raise Unparsable("form not understood")
    return DkmsModules(True, tuple(DkmsModule(*row) for row in rows))


@parses(MODULE_LOG)
def module_log(capture: Capture) -> ModuleLog:
    """Find build failures, rejected signatures and modules that do not fit."""
    text = plain(capture.text)
    about = re.search(rf"/dkms/nvidia[^/]*/([\d.]+)/|nvidia\S*/({PATTERN})", text)
    kernel = re.search(
        r"module build on kernel: (\S+)|[Kk]ernel headers for kernel (\S+)|autoinstall on ([^\s/]+)", text
    )
    return ModuleLog(
        _lines(text, _BUILD_FAILED),
        _lines(text, _REJECTED),
        _lines(text, _UNFIT),
        next(filter(None, about.groups()), "") if about else "",
        next(filter(None, kernel.groups()), "") if kernel else "",
        _lines(text, _NO_DEVICE),
    )


def _lines(text: str, pattern: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if re.search(pattern, line))


@parses(MODINFO)
def module_file(capture: Capture) -> ModuleFile:
    """Parse `modinfo nvidia`."""
    fields = dict(re.findall(r"^(\w+):[ \t]+(.*)$", capture.text, re.MULTILINE))
    if not re.fullmatch(PATTERN, fields.get("version", "").strip()):
        raise Unparsable("no driver version in it")
    return ModuleFile(fields["version"].strip(), fields["filename"].strip(), fields.get("signer", "").strip())
