"""The driver's kernel module: built for the kernel, signed where that is asked for, and alone with the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.facts.driver import DriverAnswer
from qwenhost.facts.driver_files import DriverFiles
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.facts.kernels import InstalledKernels, Kernel, RunningKernel
from qwenhost.facts.module_build import DkmsModule, DkmsModules, ModuleFile, ModuleLog
from qwenhost.facts.modules import KernelModules
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.secure_boot import SecureBoot
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_reboot, by_role

HOST = "host"

_LOADED = ("ok", "mismatch", "gpu lost", "no gpu", "hangs")
"""Answers that only a loaded module gives."""


_OWN_SIGNER = re.compile(r"DKMS module signing key|Secure Boot Module Signature key")
"""How DKMS and Ubuntu's shim name the key that a host made for itself."""


def _loaded(answer: DriverAnswer | None) -> bool:
    return answer is not None and answer.state in _LOADED


@check(
    "driver.secure-boot",
    remedy=by_hand(
        "Enrol the key that signs the module (sudo mokutil --import /var/lib/shim-signed/mok/MOK.der, or"
        " /var/lib/dkms/mok.pub; confirm at the console during the reboot), or install the distribution's signed"
        " modules, or switch Secure Boot off."
    ),
)
def secure_boot(
    state: SecureBoot | None,
    kernel: KernelEvents | None,
    log: ModuleLog | None,
    file: ModuleFile | None,
    answer: DriverAnswer | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """The kernel accepts the module's signature.

    With Secure Boot on, a module that was built on the host and signed with no enrolled key is refused:
    the driver is installed, and is not there. So no driver is installed by a role before a module that this
    host built and signed has been loaded.
    """
    events = kernel.of("key-rejected") if kernel else ()
    lines = [*(event.text for event in events), *(log.rejections if log else ())]
    on = state.enabled if state else None
    verdict = Verdict.NOTE if _loaded(answer) else Verdict.FAIL
    if lines:
        yield Judgement(HOST, verdict, "a module was rejected", "accepted", evidence=lines[-1])
    elif on and file and not file.signer:
        yield Judgement(HOST, verdict, "Secure Boot is on, the module is not signed", "signed", evidence=file.path)
    elif on and want.driver and not (_loaded(answer) and file and _OWN_SIGNER.search(file.signer)):
        yield Judgement(HOST, Verdict.FAIL, "Secure Boot is on, no enrolled key of this host was seen", "enrolled")
    elif on is False:
        yield Judgement(HOST, Verdict.PASS, "Secure Boot is off")
    elif kernel is not None and not kernel.cut:
        yield Judgement(HOST, Verdict.PASS, "no module was rejected")


@check(
    "driver.dkms",
    remedy=by_hand(
        "Read make.log under /var/lib/dkms/nvidia; install the kernel's headers (linux-headers or kernel-devel of"
        " that release) or a driver that supports the kernel, then: sudo dkms autoinstall -k RELEASE."
    ),
    consequence_of=("driver.installed",),
)
def dkms(modules: DkmsModules | None, log: ModuleLog | None, answer: DriverAnswer | None) -> Iterator[Judgement]:
    """DKMS could build the driver's module.

    After a kernel update the module is built anew; when that fails, the next boot comes up without a driver.
    """
    rows = modules.modules if modules else ()
    if log and log.build_failures:
        subject = f"nvidia {log.version} {log.kernel}".replace("  ", " ").strip()
        verdict = Verdict.WARN if _loaded(answer) else Verdict.FAIL
        yield Judgement(subject, verdict, "build failed", "built", evidence=log.build_failures[0])
    elif modules is None:
        yield skip(HOST, "nothing was seen of DKMS")
    elif not rows:
        yield skip(HOST, "the driver is not under DKMS" if modules.present else "DKMS is not installed")
    for module in rows:
        if not (log and log.build_failures and module.kernel in ("", log.kernel)):
            yield _dkms_row(module, rows, answer)


def _dkms_row(module: DkmsModule, rows: tuple[DkmsModule, ...], answer: DriverAnswer | None) -> Judgement:
    subject = f"nvidia {module.version} {module.kernel}".strip()
    if module.state == "installed":
        return Judgement(subject, Verdict.PASS, module.state, "installed")
    if DkmsModules(True, rows).superseded(module):
        return note(subject, f"{module.state}; another version is installed")
    elsewhere = any(row.state == "installed" for row in rows)
    verdict = Verdict.WARN if elsewhere or answer is None or _loaded(answer) else Verdict.FAIL
    return Judgement(subject, verdict, module.state, "installed")


@check(
    "driver.module-for-kernel",
    remedy=by_hand("Install the driver's module for the running kernel, or boot a kernel that has one."),
    consequence_of=("driver.dkms", "driver.installed"),
)
def module_for_kernel(
    installed: InstalledKernels | None,
    running: RunningKernel | None,
    answer: DriverAnswer | None,
    modules: DkmsModules | None,
    log: ModuleLog | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """The kernel that runs, and the one that boots next, have the driver's module.

    A kernel update without one is not felt until the reboot, which then brings the host up without GPUs.
    """
    unfit = log.unfit[0] if log and log.unfit else ""
    if installed is None or running is None:
        if unfit and not _loaded(answer):
            yield Judgement(_release_in(unfit), Verdict.FAIL, "no module that fits", "has one", evidence=unfit)
        return
    if not any(kernel.bootable or kernel.module for kernel in installed.kernels):
        yield skip(HOST, "no kernel is installed here: it is a container, or boots from elsewhere")
        return
    mine, following = installed.of(running.release), installed.next_boot(running.release)
    if mine and mine.module:
        yield Judgement(mine.release, Verdict.PASS, "runs, has the module", evidence=mine.module)
    elif _loaded(answer):
        yield note(running.release, "runs; the module was loaded from elsewhere")
        following = following if want.driver else None
    elif not unfit and not any(kernel.module for kernel in installed.kernels):
        yield skip(HOST, "the driver's module is installed for no kernel")
        return
    else:
        remedy = _BUILT_BY_ROLE if want.driver else None
        observed = "runs, without an nvidia module"
        yield Judgement(running.release, Verdict.FAIL, observed, "has one", evidence=unfit, remedy=remedy)
    if following and following.release != running.release:
        judgement = _next_boot(following, modules, log)
        asked = want.driver is not None and judgement.verdict is not Verdict.PASS
        yield replace(judgement, verdict=Verdict.FAIL, remedy=_BUILT_BY_ROLE) if asked else judgement


def _release_in(line: str) -> str:
    """Return the kernel that modprobe names by its folder of modules."""
    found = re.search(r"/lib/modules/([^/\s'\"]+)", line)
    return found[1] if found else HOST


_BUILT_BY_ROLE = by_role("gpu_driver", "Run qwenhost provision: the role gpu_driver has DKMS build it.")


def _next_boot(kernel: Kernel, modules: DkmsModules | None, log: ModuleLog | None) -> Judgement:
    """Judge the kernel that boots next; what DKMS itself tells of it is told there."""
    if kernel.module:
        return Judgement(kernel.release, Verdict.PASS, "boots next, has the module", evidence=kernel.module)
    observed = "boots next, without an nvidia module" + (
        "" if kernel.headers else ", and without headers to build one"
    )
    rows = [row for row in modules.modules if row.kernel == kernel.release] if modules else []
    told = any(row.state != "installed" for row in rows) or (log is not None and log.kernel == kernel.release)
    remedy = by_hand(
        f"Before the next reboot: sudo dkms autoinstall -k {kernel.release}, or install the package that brings"
        f" the module for it; modinfo -k {kernel.release} nvidia then finds it."
    )
    return Judgement(kernel.release, Verdict.NOTE if told else Verdict.WARN, observed, "has one", remedy=remedy)


_REBOOT = by_reboot("Reboot: nouveau is blacklisted, and was loaded before. If it returns, rebuild the initramfs.")


@check(
    "driver.nouveau",
    remedy=by_hand(
        "Blacklist nouveau in /etc/modprobe.d (blacklist nouveau; options nouveau modeset=0), build the initramfs"
        " anew (update-initramfs -u, or dracut -f), and reboot."
    ),
    consequence_of=("driver.installed", "driver.configured"),
)
def nouveau(
    pci: PciDevices | None,
    kernel: KernelEvents | None,
    answer: DriverAnswer | None,
    files: DriverFiles | None,
    modules: KernelModules | None,
) -> Iterator[Judgement]:
    """No other driver holds the GPUs.

    Where nouveau bound a GPU first, the NVIDIA module is loaded and finds nothing that it may use. A GPU
    on the way to a virtual machine (vfio-pci) is meant to be held.
    """
    held = [device for device in pci.gpus if device.driver in ("nouveau", "nvidiafb")] if pci else []
    remedy = _REBOOT if files and files.nouveau_off else None
    for device in held:
        subject = f"gpu {device.bus_id}"
        yield Judgement(subject, Verdict.FAIL, f"held by {device.driver}", "nvidia", remedy=remedy)
    told = kernel.of("other-driver") if kernel else ()
    if told and not held:
        verdict = Verdict.NOTE if _loaded(answer) else Verdict.FAIL
        yield Judgement(HOST, verdict, "another driver holds GPUs", "nvidia", evidence=told[-1].text)
    elif not held and modules and "nouveau" in modules.names and "nvidia" not in modules.names:
        verdict = Verdict.NOTE if _loaded(answer) else Verdict.FAIL
        yield Judgement(HOST, verdict, "nouveau is loaded, the nvidia module is not", "nvidia", remedy=remedy)
    elif not held and (
        (kernel is not None and not kernel.cut) or (pci and any(device.driver for device in pci.gpus))
    ):
        yield Judgement(HOST, Verdict.PASS, "no other driver")
