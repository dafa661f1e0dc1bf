"""Builds a flat APT repository of stand-ins for NVIDIA's driver packages.

Names, versions and dependencies are those of NVIDIA's Ubuntu packages, before and after names lost their branch.
Contents are not: maintainer scripts leave what the real ones leave where lab and checks look (a module file per
kernel with headers, the versions of the simulated driver).
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

OLD, NEW = "580.95.05", "595.71.05"
KERNEL = "6.1.0-32-amd64"
"""A kernel that the tests install on a host by hand, without headers."""

DKMS = """\
#!/bin/sh
# Stand-in of DKMS: "builds" a file for each source under /usr/src, where the kernel has headers.
build() {
    for source in /usr/src/nvidia-*; do
        [ -d "$source" ] && [ -d "/lib/modules/$1/build" ] || continue
        mkdir -p "/lib/modules/$1/updates/dkms"
        echo "${source##*nvidia-}" > "/lib/modules/$1/updates/dkms/nvidia.ko"
    done
}
case $1 in
autoinstall) build "$3" ;;
remove) rm -f /lib/modules/*/updates/dkms/nvidia.ko ;;
status)
    for module in /lib/modules/*/updates/dkms/nvidia.ko; do
        [ -f "$module" ] || continue
        kernel=${module#/lib/modules/}
        echo "nvidia/$(cat "$module"), ${kernel%%/*}, x86_64: installed"
    done ;;
esac
"""
BUILD_ALL = "for k in /lib/modules/*/build; do k=${k%/build}; dkms autoinstall -k ${k##*/}; done"
TOLD = "if [ -x /usr/lib/a100sim/run ]; then /usr/lib/a100sim/run installed {part} {version}; fi"


@dataclass(frozen=True)
class Package:
    """One package to build. `files`: path -> text; `postinst` and `prerm` are shell commands."""

    name: str
    version: str
    depends: str = ""
    conflicts: str = ""
    provides: str = ""
    files: dict[str, str] = field(default_factory=dict)
    postinst: str = ""
    prerm: str = ""

    @property
    def control(self) -> str:
        rows = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Maintainer": "qwenhost tests <tests@example.net>",
            "Depends": self.depends,
            "Conflicts": self.conflicts,
            "Replaces": self.conflicts,
            "Provides": self.provides,
            "Description": "stand-in for tests, not the real package",
        }
        return "".join(f"{key}: {value}\n" for key, value in rows.items() if value)


def with_branch(version: str, revision: str = "0ubuntu1") -> Iterator[Package]:
    """NVIDIA's Ubuntu packages up to branch 580."""
    branch, full = version.split(".")[0], f"{version}-{revision}"
    exact = f"(>= {version}), "
    kernel = f"nvidia-kernel-common-{branch} {exact}nvidia-kernel-source-{branch}-open {exact}"
    yield Package(f"nvidia-firmware-{branch}", full, provides=f"nvidia-firmware-{branch}-{version}")
    yield Package(f"nvidia-kernel-common-{branch}", full, f"nvidia-firmware-{branch}-{version}")
    yield source(f"nvidia-kernel-source-{branch}-open", full, version)
    yield module(f"nvidia-dkms-{branch}-open", full, f"{kernel}dkms", version)
    yield Package(f"libnvidia-gpucomp-{branch}", full)
    yield library(f"libnvidia-compute-{branch}", full, f"libnvidia-gpucomp-{branch} (= {full})", version)
    yield Package(f"nvidia-utils-{branch}", full, f"libnvidia-compute-{branch} (>= {version})")
    yield from unbranched(version, full)


def without_branch(version: str, revision: str = "1ubuntu1") -> Iterator[Package]:
    """NVIDIA's Ubuntu packages from branch 590 on."""
    full, old = f"{version}-{revision}", "580"
    yield Package("nvidia-firmware", full, conflicts=f"nvidia-firmware-{old}")
    yield Package("nvidia-kernel-common", full, f"nvidia-firmware (= {full})", f"nvidia-kernel-common-{old}")
    yield source("nvidia-kernel-source-open", full, version)
    depends = f"dkms, nvidia-kernel-common (= {full}), nvidia-kernel-source-open (= {full})"
    yield module("nvidia-dkms-open", full, depends, version, conflicts=f"nvidia-dkms-{old}-open")
    yield Package("libnvidia-gpucomp", full, conflicts=f"libnvidia-gpucomp-{old}")
    yield Package("libnvidia-cfg1", full)
    conflicts = f"libnvidia-compute-{old}, nvidia-utils-{old}"
    yield library("libnvidia-compute", full, f"libnvidia-gpucomp (= {full})", version, conflicts)
    yield from unbranched(version, full)


def unbranched(version: str, full: str) -> Iterator[Package]:
    """Packages whose names never had a branch; here they take the same revision as the others."""
    told = TOLD.format(part="fabricmanager", version=version)
    yield Package("nvidia-modprobe", full)
    yield Package("nvidia-persistenced", full)
    yield Package("nvidia-fabricmanager", full, postinst=told)


def tools() -> Iterator[Package]:
    """What comes from the distribution."""
    yield Package("dkms", "3.0.10-99", files={"usr/sbin/dkms": DKMS})
    folder = f"lib/modules/{KERNEL}/build"
    yield Package(
        f"linux-headers-{KERNEL}",
        "6.1.129-1",
        files={f"usr/{folder}/Makefile": "# stand-in\n"},
        postinst=f"if command -v dkms > /dev/null; then dkms autoinstall -k {KERNEL}; fi",
    )


def source(name: str, full: str, version: str) -> Package:
    return Package(name, full, files={f"usr/src/nvidia-{version}/dkms.conf": "# stand-in\n"})


def module(name: str, full: str, depends: str, version: str, conflicts: str = "") -> Package:
    told = TOLD.format(part="module", version=version)
    postinst = f"{BUILD_ALL}\n{told}"
    return Package(name, full, depends, conflicts, postinst=postinst, prerm="dkms remove --all")


def library(name: str, full: str, depends: str, version: str, conflicts: str = "") -> Package:
    return Package(name, full, depends, conflicts, postinst=TOLD.format(part="library", version=version))


def build(folder: Path, packages: Iterable[Package]) -> Path:
    """Build packages and their index into `folder`; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    stanzas = [_build(folder, package) for package in packages]
    index = "\n".join(stanzas)
    (folder / "Packages").write_text(index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    release = f"Origin: stand-ins\nSuite: /\nArchitectures: amd64\nSHA256:\n {digest} {len(index)} Packages\n"
    (folder / "Release").write_text(f"Date: Wed, 02 Dec 2026 00:00:00 UTC\n{release}")
    return folder


def everything(folder: Path) -> Path:
    """Both branches, and what the distribution brings."""
    return build(folder, [*with_branch(OLD), *without_branch(NEW), *tools()])


def _build(folder: Path, package: Package) -> str:
    """Build one .deb; returns its stanza of the index."""
    root = folder / "build" / f"{package.name}_{package.version}"
    for path, text in package.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(package.control)
    for name, commands in (("postinst", package.postinst), ("prerm", package.prerm)):
        if commands:
            (root / "DEBIAN" / name).write_text(f"#!/bin/sh\n# Stand-in for tests.\nset -e\n{commands}\n")
            (root / "DEBIAN" / name).chmod(0o755)
    made = folder / f"{root.name}_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", root, made], check=True, capture_output=True)
    content = made.read_bytes()
    where = f"Filename: ./{made.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    return package.control + where
