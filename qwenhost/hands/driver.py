"""The GPU driver's packages: the wanted version in, every other out, held, its module built for the kernels."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from typing import Any

from qwenhost.hands import apt, kernel
from qwenhost.hands.answer import Refused, outcome

SOURCES = "/etc/apt/sources.list.d/qwenhost-driver.sources"
BUILD_SECONDS = 1800
PART = re.compile(
    r"(?:lib)?nvidia-(?!container)\S+|libnv(?:cuvid|optix|sdm)\S*|libxnvctrl\S*|libcuda1\S*|cuda-drivers\S*"
    r"|xserver-xorg-video-nvidia\S*|firmware-nvidia\S*"
)
"""Names of all that belongs to a driver, in NVIDIA's and in the distributions' packaging."""

VERSION = re.compile(r"(?:\d+:)?(\d{3}\.\d+(?:\.\d+)?)(?=$|[-+~.])")


def look(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Tell that {"source"} has {"packages"} at {"version"}; the answer has its "source_text". Raises Refused."""
    text = apt.source_text(request["source"])
    _choose(request, text)
    return {**outcome([], []), "source_text": text}


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Install {"packages"} at {"version"} and headers of {"kernels": [{"release", "headers"}]}, and hold them.

    All other driver packages go to that version or away, in the same transaction. The answer has "loaded", the
    version of the module that runs, and asks for a reboot where that is another one. Raises Refused.
    """
    version = str(request["version"])
    kernels = [str(row["release"]) for row in request["kernels"]]
    before = _lines(_parts(request), kernels)
    targets = _targets(request)
    if check:
        return {**outcome(before, _planned(request, targets, kernels)), "loaded": loaded()}
    if targets:
        apt.update_only(SOURCES)
        apt.install(targets)
    loose = [part.name for part in _parts(request) if not part.held and apt.carries(part.version, version)]
    if loose:
        apt.hold(loose)
    for release in kernels:
        _build(release)
    return {**outcome(before, _lines(_parts(request), kernels), _load(version)), "loaded": loaded()}


def loaded() -> str:
    """Return the version of the module that runs, empty for none."""
    try:
        text = kernel.read(kernel.path_of("proc/driver/nvidia/version"))
    except OSError:
        return ""
    found = re.search(r"^NVRM version: .*?\s(\d{3}(?:\.\d+){1,2})\b", text, re.MULTILINE)
    return found.group(1) if found else ""


def _parts(request: dict[str, Any]) -> list[apt.Installed]:
    """Return the installed packages that belong to a driver."""
    named = set(request["packages"])
    return [
        package
        for package in apt.installed()
        if package.name in named or (PART.fullmatch(package.name) and VERSION.match(package.version))
    ]


def _targets(request: dict[str, Any]) -> list[str]:
    """Return what apt-get is told: NAME=VERSION to install, NAME- to remove; nothing when all is there."""
    version, parts = str(request["version"]), _parts(request)
    present = {part.name for part in parts if apt.carries(part.version, version)}
    others = [part.name for part in parts if part.name not in present]
    missing = [name for name in request["packages"] if name not in present]
    headers = ["linux-headers-{}".format(row["release"]) for row in request["kernels"] if not row["headers"]]
    if not missing and not others:
        return headers
    chosen = _choose(request, apt.source_text(request["source"]))
    wanted = [*missing, *(name for name in others if name not in missing)]
    return [*(_target(name, chosen) for name in wanted), *headers]


def _target(name: str, chosen: dict[str, str]) -> str:
    bare = name.partition(":")[0]
    return "{}={}".format(name, chosen[bare]) if bare in chosen else "{}-".format(name)


def _choose(request: dict[str, Any], text: str) -> dict[str, str]:
    """Return the newest revision of the version for each package that has it. Raises Refused for a missing one."""
    version, found = str(request["version"]), apt.offered(text)
    chosen = {name: entry.version for name, entry in apt.newest(found, version).items()}
    missing = [name for name in request["packages"] if name not in chosen]
    if missing:
        others = {entry.version for entry in found if entry.name in request["packages"]}
        has = ", ".join(sorted(others, key=apt.numbers)[-3:]) or "none of these packages"
        told = "{} has no {} {} (it has: {})"
        raise Refused(told.format(request["source"]["uri"], missing[0], version, has))
    return chosen


def _planned(request: dict[str, Any], targets: list[str], kernels: list[str]) -> list[str]:
    """Return the lines that a run would leave."""
    packages = {part.name: part.version for part in _parts(request)}
    for target in targets:
        name, _, version = target.partition("=")
        if version:
            packages[name] = version
        else:
            packages.pop(target[:-1], None)
    held = [apt.Installed(name, version, True) for name, version in packages.items()]
    return [*_package_lines(held), *("kernel {}: module".format(release) for release in kernels)]


def _lines(parts: list[apt.Installed], kernels: list[str]) -> list[str]:
    there = ("kernel {}: {}".format(release, "module" if _module(release) else "no module") for release in kernels)
    return [*_package_lines(parts), *there]


def _package_lines(parts: list[apt.Installed]) -> list[str]:
    return ["{} {}{}".format(part.name, part.version, " held" if part.held else "") for part in sorted(parts)]


def _module(release: str) -> bool:
    folder = glob.escape(kernel.path_of("lib/modules", release))
    return bool(glob.glob(os.path.join(folder, "**", "nvidia*.ko*"), recursive=True))


def _build(release: str) -> None:
    """Have DKMS build what is missing for one kernel. Raises Refused."""
    if _module(release):
        return
    _quiet("dkms", "autoinstall", "-k", release)
    if not _module(release):
        raise Refused("DKMS built no module for {}: read make.log under /var/lib/dkms/nvidia".format(release))


def _load(version: str) -> str:
    """Load the module where none is loaded; return why the host has to be rebooted, empty when it has not."""
    if not loaded():
        _quiet("modprobe", "-a", "nvidia", "nvidia_uvm")
    now = loaded()
    if now == version:
        return ""
    return "driver {} is installed, {} is loaded".format(version, now or "none")


def _quiet(*argv: str) -> None:
    """Run a command whose work is looked at afterwards; one that is not there has done none."""
    try:
        subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=BUILD_SECONDS,
            start_new_session=True,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return
