"""The driver's packages: what moves them, and what has been moved already and waits for a reboot."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.facts.driver import DriverVersions
from qwenhost.facts.module_build import ModuleFile
from qwenhost.facts.packages import PackageLocks, Packages
from qwenhost.facts.reboot import RebootRequest
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_reboot, by_role
from qwenhost.records.versions import agree

HOST = "host"


@check("driver.pinned", consequence_of=("driver.versions-agree", "driver.installed"))
def pinned(packages: Packages, locks: PackageLocks | None, want: Expectations) -> Iterator[Judgement]:
    """Nothing upgrades the driver unasked.

    An upgrade replaces the libraries below the loaded module: whatever starts after it fails until the
    reboot. A hold on the driver's packages leaves the moment to the operator.
    """
    if not packages.driver:
        yield skip(HOST, "the driver is not from packages: no upgrade moves it")
    elif want.driver and not packages.held:
        role = by_role("gpu_driver", "Run qwenhost provision: the role gpu_driver holds them.")
        yield Judgement(HOST, Verdict.FAIL, "not held", "held", origin=want.driver.origin, remedy=role)
    elif packages.held or (locks and locks.locked):
        yield Judgement(HOST, Verdict.PASS, "held" if packages.held else locks.locked if locks else "")
    elif locks:
        yield _not_held(packages, locks)


def _not_held(packages: Packages, locks: PackageLocks) -> Judgement:
    """Unattended upgrades take the distribution's packages; from another archive only a person moves them."""
    taken = packages.manager == "dnf" or any(package.of_distribution for package in packages.driver)
    unasked = locks.unattended and bool(packages.updater) and taken
    pin = f", pinned to branch {locks.branch_pinned} only" if locks.branch_pinned else ""
    observed = f"{packages.driver_versions[0]} is not held{pin}"
    if unasked:
        observed += f"; {packages.updater} upgrades unasked"
    verdict = Verdict.WARN if unasked else Verdict.NOTE
    return Judgement(HOST, verdict, observed, "held", remedy=by_hand(f"Hold them: {packages.hold_command}"))


@check(
    "driver.reboot-pending",
    remedy=by_reboot("Drain the host and reboot it, so that what runs is what is installed."),
    consequence_of=DRIVER_ANSWERS,
)
def reboot_pending(
    request: RebootRequest, versions: DriverVersions | None, file: ModuleFile | None, packages: Packages | None
) -> Iterator[Judgement]:
    """What is installed is what runs.

    With a newer module on disk, the next reload or reboot changes the driver, at a moment that nobody chose.
    """
    module = versions.module if versions else None
    if module is None:
        return
    waiting = _waiting(module, file, packages)
    if waiting:
        yield Judgement(HOST, Verdict.WARN, f"module {module} is loaded, {waiting} is installed", "one version")
    elif request.wanted:
        asked = ", ".join(request.packages[:3]) or "some package"
        yield note(HOST, f"a reboot is asked for by {asked}")
    else:
        yield Judgement(HOST, Verdict.PASS, f"module {module}, no reboot is asked for")


def _waiting(module: str, file: ModuleFile | None, packages: Packages | None) -> str:
    """Return the version that would be loaded next, empty when it is the loaded one or not known."""
    if file:
        return "" if agree(file.version, module) else file.version
    versions = packages.driver_versions if packages else ()
    return "" if any(agree(version, module) for version in versions) else next(iter(versions), "")
