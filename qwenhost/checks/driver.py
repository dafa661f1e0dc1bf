"""The driver: it answers, its parts agree, and it is new enough for the CUDA that is used."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.expectations.driver_tables import known_bad as known_bad_drivers
from qwenhost.facts.cuda_errors import CudaErrors
from qwenhost.facts.driver import DriverAnswer, DriverVersions
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.facts.module_build import DkmsModules, ModuleLog
from qwenhost.facts.pci import PciDevices
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_reboot
from qwenhost.records.versions import agree, older

HOST = "host"

_UPDATE = by_hand("Install a driver of a supported branch that is new enough, then reboot.")


@check(
    "driver.present",
    remedy=by_hand("Install the driver for the running kernel and load it: modprobe nvidia says why it does not."),
    consequence_of=("driver.secure-boot", "driver.dkms", "driver.nouveau", "pcie.bars", "gpu.on-bus", "gpu.gsp"),
)
def present(answer: DriverAnswer, pci: PciDevices | None, want: Expectations) -> Iterator[Judgement]:
    """The NVIDIA driver is loaded and answers in time.

    A driver that hangs takes every program that calls it along, monitoring included; only a reboot helps.
    """
    expected = "answers"
    if answer.state == "ok":
        yield Judgement(HOST, Verdict.PASS, "answers", expected, evidence=answer.evidence)
    elif answer.state == "hangs":
        reboot = by_reboot(
            "Reboot the host; if it hangs at once, look for lost GPUs and Xid 119 in the kernel log."
        )
        yield Judgement(HOST, Verdict.FAIL, "hangs", expected, evidence=answer.evidence, remedy=reboot)
    elif answer.state == "not loaded" or (answer.state == "absent" and _has_gpus(pci, want)):
        yield Judgement(HOST, Verdict.FAIL, answer.state, expected, evidence=answer.evidence)
    elif answer.state == "absent":
        yield skip(HOST, "no NVIDIA GPU on the bus") if pci and pci.complete else _unknown(answer)
    elif answer.state in ("mismatch", "gpu lost", "no gpu"):
        yield note(HOST, f"loaded: {answer.state}", expected=expected, evidence=answer.evidence)
    else:
        yield _unknown(answer)


def _unknown(answer: DriverAnswer) -> Judgement:
    return Judgement(HOST, Verdict.UNKNOWN, answer.state, "answers", evidence=answer.evidence)


def _has_gpus(pci: PciDevices | None, want: Expectations) -> bool:
    return bool(want.gpus) or bool(pci and pci.gpus)


@check(
    "driver.versions-agree",
    remedy=by_reboot("Reboot, so that the installed module is loaded; then hold the driver's packages."),
    consequence_of=("driver.present",),
)
def versions_agree(versions: DriverVersions | None, answer: DriverAnswer | None) -> Iterator[Judgement]:
    """The loaded kernel module and the installed libraries are of one version.

    An unattended upgrade replaces the libraries below a running module: what runs goes on, what starts fails.
    """
    module = versions.module if versions else None
    other = (versions.client or versions.library) if versions else None
    refused = bool(answer and answer.state == "mismatch")
    evidence = answer.evidence if answer and refused else ""
    observed = f"module {module or 'not seen'}, library {other or 'not seen'}"
    if refused or (module and other and not agree(module, other)):
        yield Judgement(HOST, Verdict.FAIL, observed, "one version", evidence=evidence)
    elif module and (other or (answer and answer.state == "ok")):
        yield Judgement(HOST, Verdict.PASS, f"module {module}, library {other or 'accepted by it'}", "one version")


@check("driver.cuda-match", remedy=_UPDATE, consequence_of=("driver.present",))
def cuda_match(
    versions: DriverVersions | None, errors: CudaErrors | None, want: Expectations
) -> Iterator[Judgement]:
    """The driver is new enough for the CUDA that programs bring along.

    vLLM's wheels carry their own CUDA runtime: only the driver's branch matters. CUDA 12 needs 525.60.13
    or newer, CUDA 13 needs 580.65.06 or newer, unless a forward-compatibility package is used.
    """
    refused = errors.of("driver too old") if errors else None
    module, cuda = (versions.module, versions.cuda) if versions else (None, None)
    wheels = errors.wheels if errors else ()
    if refused:
        found = f"CUDA {refused.found_cuda or cuda or 'of an older driver'}, driver {module or 'not seen'}"
        yield Judgement(HOST, Verdict.FAIL, found, "a newer driver", evidence=refused.line)
    elif module and want.driver_floor:
        yield judged(
            HOST,
            not older(module, want.driver_floor),
            observed=f"driver {module}",
            expected=f"{want.driver_floor} or newer",
            origin=want.driver_floor_origin,
        )
    elif cuda and wheels:
        yield _against_wheels(cuda, wheels)
    elif not want.driver_floor and not wheels:
        yield skip(HOST, "no CUDA program is declared or was seen")


def _against_wheels(cuda: str, wheels: tuple[str, ...]) -> Judgement:
    """Compare major versions: within one, programs run on any driver of that major version."""
    newest = max(wheels, key=lambda wheel: tuple(int(part) for part in wheel.split(".")))
    runs = int(newest.split(".")[0]) <= int(cuda.split(".")[0])
    return judged(HOST, runs, observed=f"driver's CUDA {cuda}", expected=f"CUDA {newest}, as the program's wheels")


@check(
    "driver.forward-compat",
    remedy=by_hand("Take the cuda-compat libraries off the library path, or install a driver that is new enough."),
)
def forward_compat(errors: CudaErrors | None) -> Iterator[Judgement]:
    """No program picked up a forward-compatibility library that does not fit.

    cuda-compat packages serve data centre GPUs and older drivers only; on others CUDA stops with error
    804, and an old one beside a newer driver with error 803.
    """
    found = (errors.of("forward compatibility") or errors.of("driver mismatch")) if errors else None
    if found:
        yield Judgement(HOST, Verdict.FAIL, found.kind, "no such error", evidence=found.line)
    else:
        yield skip(HOST, "no program reported it")


@check("driver.known-bad", remedy=_UPDATE, consequence_of=("driver.present",))
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


@check(
    "driver.secure-boot",
    remedy=by_hand("Enrol the key that signs the module (mokutil --import), or switch Secure Boot off."),
)
def secure_boot(
    kernel: KernelEvents | None, log: ModuleLog | None, answer: DriverAnswer | None
) -> Iterator[Judgement]:
    """The kernel accepts the module's signature.

    With Secure Boot on, a module that was built on the host and signed with no enrolled key is refused:
    the driver is installed, and is not there.
    """
    if kernel is None and log is None:
        return
    events = kernel.of("key-rejected") if kernel else ()
    lines = [*(event.text for event in events), *(log.rejections if log else ())]
    answers = answer is not None and answer.state == "ok"
    if lines:
        verdict = Verdict.NOTE if answers else Verdict.FAIL
        yield Judgement(HOST, verdict, "a module was rejected", "accepted", evidence=lines[-1])
    elif kernel is not None:
        yield Judgement(HOST, Verdict.PASS, "no module was rejected")


@check(
    "driver.dkms",
    remedy=by_hand("Install the running kernel's headers and a driver that supports it, then dkms autoinstall."),
)
def dkms(modules: DkmsModules | None, log: ModuleLog | None, answer: DriverAnswer | None) -> Iterator[Judgement]:
    """DKMS could build the driver's module.

    After a kernel update the module is built anew; when that fails, the next boot comes up without a driver.
    """
    answers = answer is not None and answer.state == "ok"
    if log and log.build_failures:
        subject = f"nvidia {log.version}".strip()
        verdict = Verdict.WARN if answers else Verdict.FAIL
        yield Judgement(subject, verdict, "build failed", "built", evidence=log.build_failures[0])
    elif modules is None:
        yield skip(HOST, "nothing was seen of DKMS")
    elif not modules.modules:
        yield skip(HOST, "the driver is not under DKMS" if modules.present else "DKMS is not installed")
    for module in modules.modules if modules else ():
        subject = f"nvidia {module.version} {module.kernel}".strip()
        verdict = Verdict.PASS if module.state == "installed" else Verdict.WARN
        yield Judgement(subject, verdict, module.state, "installed")


@check(
    "driver.nouveau",
    remedy=by_hand("Blacklist nouveau, build the initramfs anew, and reboot."),
)
def nouveau(
    pci: PciDevices | None, kernel: KernelEvents | None, answer: DriverAnswer | None
) -> Iterator[Judgement]:
    """No other driver holds the GPUs.

    Where nouveau bound a GPU first, the NVIDIA module is loaded and finds nothing that it may use. A GPU
    on the way to a virtual machine (vfio-pci) is meant to be held.
    """
    held = [device for device in pci.gpus if device.driver in ("nouveau", "nvidiafb")] if pci else []
    for device in held:
        yield Judgement(f"gpu {device.bus_id}", Verdict.FAIL, f"held by {device.driver}", "nvidia")
    told = kernel.of("other-driver") if kernel else ()
    if told and not held:
        answers = answer is not None and answer.state == "ok"
        verdict = Verdict.NOTE if answers else Verdict.FAIL
        yield Judgement(HOST, verdict, "another driver holds GPUs", "nvidia", evidence=told[-1].text)
    elif not held and (kernel is not None or (pci and any(device.driver for device in pci.gpus))):
        yield Judgement(HOST, Verdict.PASS, "no other driver")
