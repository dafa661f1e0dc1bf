"""How the driver's kernel module is built and loaded: DKMS, and what `modprobe` said."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source, command

_BUILD_FAILED = r"Bad return status for module build on kernel:|module build .*failed|Error! .*dkms\.conf"
_REJECTED = r"Key was rejected by service|could not insert '?nvidia'?: Required key not available"

STATUS = command(
    "dkms", "dkms", "status", looks_like=r"^nvidia[^\s,/:]*[/,] ?\d[\w.]*(?:, .*)?: (?:added|built|installed)"
)
MODULE_LOG = Source(
    "module-log",
    "command",
    argv=(
        *("journalctl", "--no-pager", "--boot", "--output", "cat", "--lines", "500"),
        *("-t", "dkms", "-t", "modprobe", "-t", "systemd-modules-load", "-t", "systemd-udevd"),
    ),
    good_exits=(0, 1),
    looks_like=rf"{_BUILD_FAILED}|{_REJECTED}",
)
"""Recorded: the output of a driver installation, of DKMS or of `modprobe`."""


@dataclass(frozen=True)
class DkmsModule:
    """One line of `dkms status`: the state is added, built or installed."""

    version: str
    kernel: str
    state: str


@dataclass(frozen=True)
class DkmsModules:
    """The NVIDIA modules under DKMS. `present` false: DKMS is not installed on the host."""

    present: bool
    modules: tuple[DkmsModule, ...] = ()


@dataclass(frozen=True)
class ModuleLog:
    """Lines that tell why the module is not there; empty when all went well."""

    build_failures: tuple[str, ...]
    rejections: tuple[str, ...]
    version: str = ""
    """Driver version whose build failed, where a path names it."""


@parses(STATUS, accepts=("ok", "missing"))
def modules_from_status(capture: Capture) -> DkmsModules:
    """Parse `dkms status` of either punctuation; a host without DKMS has no such modules."""
    if capture.status == "missing":
        return DkmsModules(present=False)
    rows = re.findall(
        r"^nvidia[^\s,/:]*[/,] ?([\d.]+)(?:, ([^,]+), [^:]+)?: (added|built|installed)",
        capture.text,
        re.MULTILINE,
    )
    if not rows and capture.text.strip() and not re.search(r"^\S+[/,] ?\S+.*: \w+", capture.text, re.MULTILINE):
        raise Unparsable("form not understood")
    return DkmsModules(True, tuple(DkmsModule(*row) for row in rows))


@parses(MODULE_LOG)
def module_log(capture: Capture) -> ModuleLog:
    """Find build failures and rejected signatures."""
    text = plain(capture.text)
    about = re.search(r"/dkms/nvidia[^/]*/([\d.]+)/", text)
    return ModuleLog(
        tuple(line for line in text.splitlines() if re.search(_BUILD_FAILED, line)),
        tuple(line for line in text.splitlines() if re.search(_REJECTED, line)),
        about[1] if about else "",
    )
