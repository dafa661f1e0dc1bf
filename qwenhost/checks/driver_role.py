"""The declared driver: its packages are installed, and nothing on the host works against them."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.expectations.driver_packages import distributions, package_names, package_source
from qwenhost.facts.driver import DriverVersions
from qwenhost.facts.driver_files import DriverFiles
from qwenhost.facts.packages import PackageLocks, Packages
from qwenhost.facts.pci import PciDevices
from qwenhost.records.desired import Driver, Expectations
from qwenhost.records.finding import Verdict, by_hand, by_role
from qwenhost.records.versions import agree

HOST = "host"

ROLE = "gpu_driver"

_SHOWN = 3


def declared(want: Expectations) -> bool:
    """Tell whether the role installs the driver of this host."""
    return want.driver is not None


@check(
    "driver.installed",
    remedy=by_role(
        ROLE,
        "Run qwenhost provision when the host is drained: the role gpu_driver installs it in one transaction, and"
        " programs that start before the next reboot fail.",
    ),
    applies=declared,
    skipped="qwenhost_driver is not declared",
)
def installed(
    packages: Packages, files: DriverFiles, pci: PciDevices | None, want: Expectations
) -> Iterator[Judgement]:
    """The packages of the declared driver are installed, at exactly that version, and those of no other.

    Module, firmware, libraries and fabric manager only work together at one version, to the last digit. The
    fabric manager belongs to them where NVSwitches are on the bus.
    """
    driver = want.driver or Driver("")
    names = package_names(driver.version, files.distribution, fabric=bool(pci and pci.switches))
    if not names:
        yield _not_supported(files.distribution, driver)
        return
    wrong = _wrong(packages, names, driver.version)
    told = ", ".join(wrong[:_SHOWN]) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else "")
    yield judged(
        HOST,
        not wrong,
        observed=told or f"{len(names)} packages of {driver.version}",
        expected=driver.version,
        origin=driver.origin,
    )


def _not_supported(distribution: str, driver: Driver) -> Judgement:
    remedy = by_hand("Install the driver by hand, and declare qwenhost_driver_version instead of qwenhost_driver.")
    known = f"one of {', '.join(distributions())}"
    return Judgement(HOST, Verdict.FAIL, distribution, known, origin=driver.origin, remedy=remedy)


def _wrong(packages: Packages, names: tuple[str, ...], version: str) -> list[str]:
    """Name what is missing, what has another version, and what is left of another driver."""
    there = {package.name: package.carried for package in packages.packages}
    differing = [f"{name} {there.get(name) or 'is missing'}" for name in names if there.get(name) != version]
    left = [f"{each.name} {each.driver} is left" for each in packages.driver if each.driver != version]
    return differing + [line for line in left if line.split()[0] not in names]


@check(
    "driver.configured",
    remedy=by_role(ROLE),
    applies=declared,
    skipped="qwenhost_driver is not declared",
    consequence_of=("driver.installed",),
)
def configured(files: DriverFiles, locks: PackageLocks, want: Expectations) -> Iterator[Judgement]:
    """Nothing else takes the GPUs or moves the packages.

    nouveau is kept off, an apt pin names the version, unattended upgrades leave the driver out, and
    persistence mode is switched on with the daemon, which distributions start without it.
    """
    driver = want.driver or Driver("")
    source = package_source(driver, files.distribution).uri
    rows = {
        "nouveau": (files.nouveau_off, "blacklisted"),
        "apt pin": (locks.locked if f" {driver.version}" in locks.locked else "", f"version {driver.version}"),
        "unattended upgrades": ("" if locks.unattended else "leave it out", "leave the driver out"),
        "persistence daemon": ("has our drop-in" if files.persistence_unit else "", "with our drop-in"),
        "package source": (source if files.source == source else "", source),
    }
    for subject, (observed, expected) in rows.items():
        yield judged(
            subject, bool(observed), observed=observed or "is not", expected=expected, origin=driver.origin
        )


@check(
    "driver.version",
    remedy=by_hand("Install the declared driver, or declare the one that is meant: qwenhost_driver_version."),
    applies=lambda want: bool(want.driver_version) and want.driver is None,
    skipped="qwenhost_driver_version is not declared, or the role installs the driver",
    consequence_of=DRIVER_ANSWERS,
)
def loaded(versions: DriverVersions, want: Expectations) -> Iterator[Judgement]:
    """The driver that runs is the declared one.

    Hosts of one fleet drift apart where each gets its driver at another time.
    """
    module = versions.module
    yield judged(
        HOST,
        agree(module, want.driver_version) if module else None,
        observed=module or "not seen",
        expected=want.driver_version,
        origin="inventory: qwenhost_driver_version",
    )
