"""Which packages the driver came from, and what keeps them from being moved."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, tree
from qwenhost.records.versions import PATTERN

_ROW = r"^([uihrp])([a-zA-Z])[R ]?[ \t]+(\S+?)(?::\w+)?[ \t]+(\S+)"
_NAMES = ("*nvidia*", "cuda-compat*", "cuda-drivers*", "libcuda1*", "kmod-*")
ANCHOR = "/etc/os-release"
_UPDATERS = ("unattended-upgrades", "dnf-automatic")

DPKG = command(
    "packages-dpkg",
    *("dpkg-query", "-W", "-f", r"${db:Status-Abbrev}\t${Package}\t${Version}\n", "dpkg", *_UPDATERS, *_NAMES),
    good_exits=(0, 1),
    looks_like=r"^[uihrp][a-zA-Z]R?[ \t]+\S*(?:nvidia|cuda-compat)\S*[ \t]+\d\S*",
)
"""dpkg itself is on every host that has it. Exit code 1: some pattern fits no package. Recorded: `dpkg -l`."""

RPM = command(
    "packages-rpm",
    *("rpm", "-qa", "--qf", r"%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}\n", "rpm", *_UPDATERS, *_NAMES),
    looks_like=rf"^\S*nvidia\S*-(?:\d+:)?{PATTERN}-\d\S*\.(?:x86_64|aarch64|noarch)\s*$",
)
_LOCKS = tree(
    "package-locks",
    "/etc/dnf/plugins/versionlock.list",
    "/etc/yum/pluginconf.d/versionlock.list",
    "/etc/dnf/versionlock.toml",
    "/etc/dnf/dnf.conf",
    "/etc/yum.conf",
    "/etc/apt/preferences",
    "/etc/apt/preferences.d/*",
    "/etc/apt/apt.conf.d/*upgrades*",
    "/etc/apt/apt.conf.d/*periodic*",
    "/etc/dnf/automatic.conf",
    ANCHOR,
)
LOCKS = replace(
    _LOCKS, looks_like=rf'\A\s*\{{\s*"(?:/etc/apt/(?:preferences|apt\.conf)|/etc/dnf/|/etc/yum|{ANCHOR})'
)
"""ANCHOR is there on every host: with it alone, nothing is locked."""

_DRIVER = re.compile(
    r"(?:lib)?nvidia-(?!settings|prime|modprobe|container|docker)\S*|kmod-nvidia\S*|libcuda1\S*|cuda-drivers\S*"
    r"|xserver-xorg-video-nvidia\S*"
)
_TOP = re.compile(r"nvidia-(?:driver|headless|open|server)(?!-pinning)\S*")


@dataclass(frozen=True)
class Package:
    """An installed package. `held`: dpkg's own hold is on it."""

    name: str
    version: str
    held: bool = False

    @property
    def carried(self) -> str:
        """The driver version that its own version begins with, empty for another kind of version."""
        found = re.match(rf"(?:\d+:)?({PATTERN})(?=$|[-+~.])", self.version)
        return found[1] if found else ""

    @property
    def driver(self) -> str:
        """The driver version that it carries, empty for a package that is no part of the driver."""
        return self.carried if _DRIVER.fullmatch(self.name) else ""

    @property
    def top(self) -> bool:
        """It depends on the exact versions of the others, so that a hold on it keeps them all."""
        return _TOP.fullmatch(self.name) is not None

    @property
    def of_distribution(self) -> bool:
        """Built by Ubuntu or Debian: unattended upgrades take packages from their archives, not from NVIDIA's."""
        return re.search(r"ubuntu0\.|deb\d+u\d+", self.version) is not None


@dataclass(frozen=True)
class Packages:
    """Installed packages that have to do with the driver, and those that update by themselves."""

    packages: tuple[Package, ...]
    manager: Literal["apt", "dnf"] = "apt"

    @property
    def driver(self) -> tuple[Package, ...]:
        """Those that the driver consists of."""
        return tuple(package for package in self.packages if package.driver)

    @property
    def driver_versions(self) -> tuple[str, ...]:
        """Versions of the driver's packages, once each, the most frequent first."""
        versions = [package.driver for package in self.driver]
        return tuple(sorted(dict.fromkeys(versions), key=versions.count, reverse=True))

    @property
    def held(self) -> bool:
        """dpkg's hold is on a package that keeps all the others, or on each of them."""
        tops = [package for package in self.driver if package.top]
        return any(package.held for package in tops) or all(package.held for package in self.driver)

    @property
    def updater(self) -> str:
        """The package that upgrades others unasked, empty for none."""
        return next((package.name for package in self.packages if package.name in _UPDATERS), "")

    @property
    def hold_command(self) -> str:
        """The command that keeps the driver's packages at their versions."""
        if self.manager == "dnf":
            return "sudo dnf versionlock add 'nvidia-*' 'kmod-nvidia*' 'libnvidia-*'"
        return f"sudo apt-mark hold {' '.join(package.name for package in self.driver)}"

    @property
    def compat(self) -> tuple[str, ...]:
        """CUDA versions of the installed forward-compatibility packages, such as "13.0"."""
        named = (re.fullmatch(r"cuda-compat-(\d+)-(\d+)", package.name) for package in self.packages)
        return tuple(f"{found[1]}.{found[2]}" for found in named if found)


@dataclass(frozen=True)
class PackageLocks:
    """What keeps the driver's packages where they are, besides dpkg's holds.

    `locked`: a line of a version lock, an exclusion or a pin to one version. `branch_pinned`: a pin to a branch,
    within which patches still move. `unattended`: automatic upgrades are on, and do not leave out the driver.
    """

    locked: str = ""
    branch_pinned: str = ""
    unattended: bool = False


@parses(DPKG)
def packages_from_dpkg(capture: Capture) -> Packages:
    """Parse installed packages, of our own form or of `dpkg -l`."""
    rows = re.findall(_ROW, capture.text, re.MULTILINE)
    if not rows:
        raise Unparsable("no package in it")
    return Packages(
        tuple(Package(name, version, wanted == "h") for wanted, state, name, version in rows if state == "i")
    )


@parses(RPM)
def packages_from_rpm(capture: Capture) -> Packages:
    """Parse `rpm -qa`, whose lines are NAME-VERSION-RELEASE.ARCH."""
    rows = re.findall(r"^(\S+?)-((?:\d+:)?\d[^\s-]*-[^\s-]+)\.\w+\s*$", capture.text, re.MULTILINE)
    if not rows:
        raise Unparsable("no package in it")
    return Packages(tuple(Package(name, version) for name, version in rows), "dnf")


@parses(LOCKS)
def package_locks(capture: Capture) -> PackageLocks:
    """Parse locks of dnf, pins of apt, and the switch of unattended upgrades."""
    files = listing(capture, ANCHOR)
    apt = {path: text for path, text in files.items() if path.startswith("/etc/apt/")}
    dnf = "\n".join(text for path, text in files.items() if path.startswith(("/etc/dnf", "/etc/yum")))
    automatic = re.search(r"^apply_updates\s*=\s*(?:yes|true|1)\b", dnf, re.MULTILINE)
    unattended = _unattended("\n".join(apt.values())) or automatic is not None
    locks = replace(_pins("\n\n".join(apt.values())), unattended=unattended)
    line = re.search(
        r"^(?!\s*[#!])(?:exclude\w*\s*=.*nvidia.*|(?:name\s*=\s*)?\W*(?:\d+:)?(?:kmod-)?nvidia\S*.*)$",
        dnf,
        re.MULTILINE,
    )
    return replace(locks, locked=line[0].strip()) if line else locks


def _pins(preferences: str) -> PackageLocks:
    """Read stanzas such as `Package: *nvidia*`, `Pin: version 580.95.05-*`; the most exact one counts."""
    stanzas = re.findall(r"^Package:.*nvidia.*\n(?:.+\n)*?Pin: *version +(\S+)", preferences, re.MULTILINE)
    exact = [pin for pin in stanzas if re.match(r"(?:\d+:)?\d{3}\.\d+(?:\.\d+|[-+])", pin)]
    return PackageLocks(locked=f"apt pin {exact[0]}" if exact else "", branch_pinned=stanzas[0] if stanzas else "")


def _unattended(settings: str) -> bool:
    bare = re.sub(r"^\s*(?://|#).*$", "", settings, flags=re.MULTILINE)
    on = re.search(r'APT::Periodic::Unattended-Upgrade\s+"?[1-9]', bare)
    spared = re.search(r"Package-Blacklist\s*\{[^}]*nvidia", bare)
    return bool(on) and not spared
