"""The driver: it answers, its parts agree, and its version is one to stay with."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.checks.per_vllm import blamed
from qwenhost.expectations.driver_tables import known_bad as known_bad_drivers
from qwenhost.expectations.software import DriverBranch, driver_branch, kept_up, near_end_months
from qwenhost.facts.capture_date import CaptureDate
from qwenhost.facts.driver import DriverAnswer, DriverVersions
from qwenhost.facts.module_build import ModuleFile, ModuleLog
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.upgrades import DriverUpgrade
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Remedy, Verdict, by_hand, by_reboot
from qwenhost.records.versions import agree, branch, older

HOST = "host"

_UPDATE = by_hand("Install a driver of a supported branch that is new enough, then reboot.")


@check(
    "driver.present",
    remedy=by_hand("Install the driver for the running kernel and load it: modprobe nvidia says why it does not."),
    consequence_of=(
        *("driver.secure-boot", "driver.dkms", "driver.nouveau", "driver.module-for-kernel"),
        *("driver.installed", "pcie.bars", "gpu.on-bus", "gpu.gsp"),
    ),
)
def present(
    answer: DriverAnswer | None,
    pci: PciDevices | None,
    runs: VllmRuns | None,
    log: ModuleLog | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """The NVIDIA driver is loaded and answers in time.

    A driver that hangs takes every program that calls it along, monitoring included; only a reboot helps.
    """
    expected = "answers"
    if answer is None or answer.state == "absent":
        blames = tuple(blamed("driver.present", runs))
        for subject, cause in blames:
            yield Judgement(subject, Verdict.FAIL, cause.observed, expected, cause.line, remedy=_NO_GPU)
        if answer is None and log and log.no_device:
            yield Judgement(HOST, Verdict.FAIL, _FOUND_NONE, expected, log.no_device[-1], remedy=_LOOK_AT_KERNEL)
        if blames or answer is None:
            return
    if answer.state == "ok":
        yield Judgement(HOST, Verdict.PASS, "answers", expected, evidence=answer.evidence)
    elif answer.state == "hangs":
        reboot = by_reboot(
            "Reboot the host; if it hangs at once, look for lost GPUs and Xid 119 in the kernel log."
        )
        yield Judgement(HOST, Verdict.FAIL, "hangs", expected, evidence=answer.evidence, remedy=reboot)
    elif answer.state == "not loaded" or (answer.state == "absent" and _has_gpus(pci, want)):
        remedy = _BOOT if want.driver else None
        yield Judgement(HOST, Verdict.FAIL, answer.state, expected, evidence=answer.evidence, remedy=remedy)
    elif answer.state == "absent":
        yield skip(HOST, "no NVIDIA GPU on the bus") if pci and pci.complete else _unknown(answer)
    elif answer.state in ("mismatch", "gpu lost", "no gpu"):
        yield note(HOST, f"loaded: {answer.state}", expected=expected, evidence=answer.evidence)
    else:
        yield _unknown(answer)


_FOUND_NONE = "not loaded: it found no GPU that it may use"

_LOOK_AT_KERNEL = by_hand(
    "Read what the kernel said (dmesg | grep NVRM): the GPU is not on the bus (lspci -d 10de:), another driver"
    " holds it, or this driver does not know it."
)

_NO_GPU = by_hand(
    "Look what nvidia-smi says on the host, then in the container or environment of the program: the driver is not"
    " loaded, the container was given no GPU (--gpus all), CUDA_VISIBLE_DEVICES hides it, or PyTorch has no CUDA."
)

_BOOT = by_reboot("Reboot: the driver is installed, and could not be loaded beside what the kernel had loaded.")


def _unknown(answer: DriverAnswer) -> Judgement:
    return Judgement(HOST, Verdict.UNKNOWN, answer.state, "answers", evidence=answer.evidence)


def _has_gpus(pci: PciDevices | None, want: Expectations) -> bool:
    return bool(want.gpus) or bool(pci and pci.gpus)


_RELOAD = by_reboot(
    "Reboot; or stop all users of the GPUs, nvidia-persistenced and nvidia-fabricmanager among them, and reload"
    " the module: sudo modprobe -r nvidia_peermem nvidia_drm nvidia_modeset nvidia_uvm nvidia && sudo modprobe"
    " nvidia. Then hold the driver's packages."
)
_OWN_LIBRARIES = by_hand(
    "Find the program that brings its own driver libraries: a container image with libcuda inside, or a folder on"
    " LD_LIBRARY_PATH; take them out, so that it uses the host's."
)


@check("driver.versions-agree", remedy=_RELOAD, consequence_of=("driver.present",))
def versions_agree(
    versions: DriverVersions | None,
    answer: DriverAnswer | None,
    upgrade: DriverUpgrade | None,
    file: ModuleFile | None,
) -> Iterator[Judgement]:
    """The loaded kernel module and the installed libraries are of one version.

    An unattended upgrade replaces the libraries below a running module: what runs goes on, what starts fails.
    """
    module, library, client = (
        (versions.module, versions.library, versions.client) if versions else (None, None, None)
    )
    answers = answer is not None and answer.state == "ok"
    refused = answer is not None and answer.state == "mismatch"
    other = library if answers else client or library
    observed = f"module {module or 'not seen'}, library {other or 'not seen'}"
    if refused or (module and other and not agree(module, other)):
        evidence = _what_moved_it(upgrade, module) or (answer.evidence if answer and refused else "")
        remedy = _build(file.version, other) if file and other and not agree(file.version, other) else None
        yield Judgement(HOST, Verdict.FAIL, observed, "one version", evidence=evidence, remedy=remedy)
    elif module and client and not agree(module, client):
        told = f"module {module}, a program came with {client}"
        yield Judgement(HOST, Verdict.WARN, told, "one version", remedy=_OWN_LIBRARIES)
    elif module and (other or answers):
        yield Judgement(HOST, Verdict.PASS, f"module {module}, library {other or 'accepted by it'}", "one version")


def _what_moved_it(upgrade: DriverUpgrade | None, module: str | None) -> str:
    """Return the upgrade that left the loaded module behind, as the package manager's history has it."""
    if upgrade is None or not upgrade.before or (module and not agree(module, upgrade.before)):
        return ""
    return upgrade.told


def _build(on_disk: str, library: str) -> Remedy:
    """The module on disk is another version too: a reboot alone loads the wrong one again."""
    return by_hand(
        f"Install or build the kernel module {library} (dkms status; on disk is {on_disk}), then reboot: a reboot"
        " alone does not help."
    )


@check(
    "driver.supported",
    remedy=by_hand(
        "Plan the move to a branch that gets fixes; the libraries, modules and fabric manager move with it."
    ),
    consequence_of=DRIVER_ANSWERS,
)
def supported(versions: DriverVersions, date: CaptureDate | None) -> Iterator[Judgement]:
    """The driver's branch still gets fixes, security fixes among them.

    Production branches get them for about a year, long-term ones for three, new feature branches until the
    next one. Judged by the date of the capture, so that an old bundle is not blamed for its age.
    """
    version = versions.module or versions.library
    if version is None:
        return
    row = driver_branch(version)
    if row is None:
        yield note(HOST, f"branch {branch(version)} is not in this version's table")
    elif date is not None:
        yield _by_age(row, date.month)


def _by_age(row: DriverBranch, month: str) -> Judgement:
    left = row.months_left(month)
    expected = f"one of {', '.join(kept_up(month))}" if kept_up(month) else ""
    end = f"until {row.end_of_life}" if row.exact else f"ended by {row.end_of_life}"
    observed = (
        f"branch {row.name} ({row.kind}), fixes {end}" if left is not None else f"branch {row.name} ({row.kind})"
    )
    if left is not None and left < 0:
        return Judgement(HOST, Verdict.WARN, f"{observed}; seen in {month}", expected, origin=row.origin)
    if left is None or not row.exact or left <= near_end_months():
        return Judgement(HOST, Verdict.NOTE, observed, expected, origin=row.origin)
    return Judgement(HOST, Verdict.PASS, observed, origin=row.origin)


@check("driver.known-bad", remedy=_UPDATE, consequence_of=DRIVER_ANSWERS)
def known_bad(versions: DriverVersions) -> Iterator[Judgement]:
    """The driver is none with a known fault that hits these hosts.

    Some releases time out, hang or miscount on this hardware, and a later patch of the same branch does not.
    """
    module = versions.module
    if module is None:
        return
    hits = [row for row in known_bad_drivers() if not older(module, row.start) and older(module, row.end)]
    for row in hits:
        origin = "drivers.yaml: known_bad"
        yield Judgement(HOST, row.verdict, f"{module}: {row.why}", f"{row.end} or newer", origin=origin)
    if not hits:
        yield Judgement(HOST, Verdict.PASS, module)
