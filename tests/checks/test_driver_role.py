"""The declared driver: what is missing, left, loose or in the way, each named, and put right by the role."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qwenhost.checks.driver_module import nouveau
from qwenhost.checks.engine import examine
from qwenhost.facts.driver_files import DriverFiles
from qwenhost.facts.pci import PciDevice, PciDevices
from qwenhost.plan import OPEN, make_plan
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Driver, Expectations
from qwenhost.records.finding import Finding, Verdict, by_hand
from tests.checks.conftest import Edit, added, edited, of, without

VERSION = "580.95.05"
RELEASE = 'ID=ubuntu\nVERSION_ID="24.04"\n'
FILES = {
    "/etc/apt/sources.list.d/qwenhost-driver.sources": "Types: deb\nURIs: file:/srv/nvidia\nSuites: /\n",
    "/etc/modprobe.d/qwenhost-driver.conf": "blacklist nouveau\noptions nouveau modeset=0\n",
    "/etc/systemd/system/nvidia-persistenced.service.d/qwenhost.conf": "[Service]\n",
    "/usr/lib/os-release": RELEASE,
}
LOCKS = {
    "/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";\n',
    "/etc/apt/apt.conf.d/52qwenhost-driver-upgrades": 'Unattended-Upgrade::Package-Blacklist { "nvidia-"; };\n',
    "/etc/apt/preferences.d/90-qwenhost-driver": f"Package: *nvidia*\nPin: version {VERSION}*\n",
    "/etc/os-release": RELEASE,
}
NAMES = (
    *("libnvidia-compute-580", "nvidia-dkms-580-open", "nvidia-utils-580", "nvidia-modprobe"),
    *("nvidia-persistenced", "nvidia-fabricmanager"),
)
PACKAGES = "".join(f"hi \t{name}\t{VERSION}-0ubuntu1\n" for name in ("dpkg", *NAMES))


@pytest.fixture
def installed(healthy: Bundle) -> Bundle:
    """The healthy host, its driver installed by the role."""
    bundle = without(healthy, "packages-dpkg", "package-locks")
    for source, text in (
        ("packages-dpkg", PACKAGES),
        ("package-locks", json.dumps(LOCKS)),
        ("driver-files", json.dumps(FILES)),
    ):
        bundle = added(bundle, source, text)
    return bundle


@pytest.fixture
def declared(want: Expectations) -> Expectations:
    return replace(want, driver=Driver(VERSION, folder="/srv/nvidia", origin="inventory: qwenhost_driver"))


BY_HAND = by_hand("")
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
SUBJECTS = ("driver.", "fabric.", "gpu.", "pcie.", "nvlink.", "memory.", "mig.", "firmware.")
"""Of the host itself the healthy bundle tells little."""


def causes(bundle: Bundle, want: Expectations) -> dict[str, Finding]:
    """Return what asks for something, by check."""
    return {f.check: f for f in examine(bundle, want) if f.verdict in OPEN and not f.cause and mine(f)}


def mine(finding: Finding) -> bool:
    return finding.check.startswith(SUBJECTS)


def test_a_host_as_the_role_leaves_it_is_healthy(installed: Bundle, declared: Expectations) -> None:
    assert causes(installed, declared) == {}
    assert of(examine(installed, declared), "driver.installed")[0].observed == f"6 packages of {VERSION}"


def test_nothing_declared_is_judged_as_before(installed: Bundle, healthy: Bundle, want: Expectations) -> None:
    for bundle in (installed, healthy):
        for check in ("driver.installed", "driver.configured", "driver.version"):
            assert [f.verdict for f in of(examine(bundle, want), check)] == [Verdict.SKIP]


WRONG: dict[str, tuple[Edit, str, str]] = {
    "missing": (("packages-dpkg", "nvidia-utils-580", "other"), "driver.installed", "nvidia-utils-580 is missing"),
    "no fabric manager": (
        ("packages-dpkg", "hi \tnvidia-fabricmanager", "un \tnvidia-fabricmanager"),
        "driver.installed",
        "nvidia-fabricmanager is missing",
    ),
    "half configured": (
        ("packages-dpkg", "hi \tlibnvidia-compute-580", "hF \tlibnvidia-compute-580"),
        "driver.installed",
        "libnvidia-compute-580 is missing",
    ),
    "other version": (
        ("packages-dpkg", f"nvidia-dkms-580-open\t{VERSION}", "nvidia-dkms-580-open\t580.82.07"),
        "driver.installed",
        "nvidia-dkms-580-open 580.82.07",
    ),
    "old branch left": (
        ("packages-dpkg", "hi \tdpkg", "ii \tlibnvidia-gl-570\t570.86.15-0ubuntu1\nhi \tdpkg"),
        "driver.installed",
        "libnvidia-gl-570 570.86.15 is left",
    ),
    "not held": (("packages-dpkg", "hi \tnvidia-utils", "ii \tnvidia-utils"), "driver.pinned", "not held"),
    "nouveau": (("driver-files", "blacklist nouveau", "# nothing"), "driver.configured", "is not"),
    "pin": (("package-locks", f"version {VERSION}", "version 580.82.07"), "driver.configured", "is not"),
    "upgrades": (("package-locks", "nvidia-\\", "libfoo\\"), "driver.configured", "is not"),
    "drop-in": (("driver-files", "d/qwenhost.conf", "d/other.conf"), "driver.configured", "is not"),
    "source": (("driver-files", "file:/srv/nvidia", "file:/srv/old"), "driver.configured", "is not"),
    "module for the next kernel": (
        (
            "kernels-installed",
            "/boot/vmlinuz-6.1.0-32-amd64\n",
            "/boot/vmlinuz-6.1.0-32-amd64\n/boot/vmlinuz-6.1.0-35-amd64\n",
        ),
        "driver.module-for-kernel",
        "boots next, without an nvidia module, and without headers to build one",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_role_puts_it_right(case: str, installed: Bundle, declared: Expectations) -> None:
    edit, check, told = WRONG[case]
    found = causes(edited(installed, edit), declared)
    assert list(found) == [check]
    assert (found[check].observed, found[check].remedy.role) == (told, "gpu_driver")


def test_a_host_without_a_driver_needs_the_role_and_nothing_blocks_it(
    installed: Bundle, declared: Expectations
) -> None:
    bare = without(
        installed,
        *("nvml", "nvidia-smi", "nvidia-smi-q", "nvidia-smi-L", "nvidia-smi-version", "nvidia-smi-topo"),
        *("nvidia-smi-nvlink", "proc-driver-nvidia-version", "packages-dpkg", "driver-files", "dkms", "modinfo"),
        *("fabricmanager-unit", "fabricmanager-version", "fabricmanager-log", "modules-loaded"),
    )
    bare = added(bare, "packages-dpkg", "ii \tdpkg\t1.21.22\n")
    bare = added(bare, "driver-files", json.dumps({"/usr/lib/os-release": RELEASE}))
    bare = added(bare, "nvidia-smi", NO_DRIVER)
    bare = added(bare, "fabricmanager-unit", "Id=nvidia-fabricmanager.service\nLoadState=not-found\n")
    plan = make_plan(filter(mine, examine(bare, declared)))
    assert plan.roles == ("gpu_driver",)
    assert [(f.check, f.observed) for f in plan.blockers] == []
    whole = added(without(bare, "packages-dpkg", "driver-files"), "packages-dpkg", PACKAGES)
    whole = added(whole, "driver-files", json.dumps(FILES))
    assert "driver.present" in {f.check for f in make_plan(examine(whole, declared)).reboots}


def test_an_unknown_distribution_stops_before_anything_is_done(installed: Bundle, declared: Expectations) -> None:
    foreign = edited(installed, ("driver-files", "ID=ubuntu", "ID=rhel"))
    found = causes(foreign, declared)["driver.installed"]
    assert (found.observed, found.remedy.kind) == ("rhel-24.04", "hand")


@pytest.mark.parametrize(
    ("signer", "verdict"),
    [
        ("DKMS module signing key", Verdict.PASS),
        ("gpu1 Secure Boot Module Signature key", Verdict.PASS),
        ("Canonical Ltd. Kernel Module Signing", Verdict.FAIL),
    ],
)
def test_secure_boot_blocks_until_a_key_of_the_host_is_known(
    signer: str, verdict: Verdict, installed: Bundle, declared: Expectations, want: Expectations
) -> None:
    on = added(without(installed, "secure-boot", "mokutil"), "mokutil", "SecureBoot enabled\n")
    modinfo = next(item.text for item in installed.captures if item.source == "modinfo")
    signed = f"{modinfo.rstrip()}\nsigner:         {signer}\n"
    bundle = added(without(on, "modinfo"), "modinfo", signed)
    found = of(examine(bundle, declared), "driver.secure-boot")
    assert [f.verdict for f in found] == [verdict]
    assert bool(make_plan(found).blockers) == (verdict is Verdict.FAIL)
    assert [f.verdict for f in of(examine(bundle, want), "driver.secure-boot")] == [Verdict.PASS]


@pytest.mark.parametrize(("off", "kind"), [("blacklist nouveau", "reboot"), ("", "hand")])
def test_nouveau_that_was_loaded_before_its_blacklist_waits_for_a_reboot(off: str, kind: str) -> None:
    gpu = PciDevice(bus_id="0000:07:00.0", vendor="10de", device="20b2", class_code="0302", driver="nouveau")
    found = list(nouveau(PciDevices((gpu,), complete=True), None, None, DriverFiles("ubuntu-24.04", off), None))
    assert [(j.verdict, (j.remedy or BY_HAND).kind) for j in found] == [(Verdict.FAIL, kind)]


def test_another_version_than_the_declared_one_runs(healthy: Bundle, want: Expectations) -> None:
    for version, verdict in ((VERSION, Verdict.PASS), ("580.82.07", Verdict.FAIL)):
        found = of(examine(healthy, replace(want, driver_version=version)), "driver.version")
        assert [f.verdict for f in found] == [verdict]
