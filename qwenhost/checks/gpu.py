"""Are the GPUs there, do they answer, and what did they complain of?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.checks.logs import nothing
from qwenhost.checks.per_gpu import DRIVER_ANSWERS, each
from qwenhost.expectations.driver_tables import recovery
from qwenhost.facts.driver import DriverAnswer, DriverVersions
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.kernel_log import KernelEvent, KernelEvents
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.reading import bus_id
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_hardware
from qwenhost.records.versions import agree

HOST = "host"

_NOT_STARTED = "the driver could not start it"

_OTHER_DRIVER = by_hand(
    "Install a driver that lists the board: a newer branch for a new board, the closed modules for one before"
    " Turing."
)

_GSP_XIDS = (119, 120)


@check(
    "gpu.count",
    remedy=by_hardware("Find the missing board: reboot, then power cycle, then reseat it."),
    consequence_of=(*DRIVER_ANSWERS, "gpu.on-bus", "pcie.bars"),
)
def count(
    gpus: Gpus | None, pci: PciDevices | None, kernel: KernelEvents | None, want: Expectations
) -> Iterator[Judgement]:
    """All GPUs that were bought are usable.

    Tensor parallelism over eight GPUs does not start on seven, and a smaller one starts without a word.
    The driver's list is compared with the declared count, or, where none is declared, with the NVIDIA
    GPUs on the PCIe bus.
    """
    if kernel:
        yield from _not_started(kernel)
    if gpus is None:
        return
    usable = gpus.listed - sum(gpu.lost is not None for gpu in gpus.gpus)
    if want.gpus is not None:
        verdict = Verdict.FAIL if usable < want.gpus else Verdict.WARN
        yield judged(
            HOST,
            usable == want.gpus,
            observed=f"{usable} GPUs",
            expected=f"{want.gpus} GPUs",
            otherwise=verdict,
            evidence=_missing(gpus, pci),
            origin=want.gpus_origin,
        )
    elif not gpus.listed and not (pci and pci.complete and not pci.gpus):
        yield Judgement(HOST, Verdict.FAIL, "the driver has no GPU", "the GPUs of the host")
    else:
        yield _against_bus(usable, gpus, pci)


def _not_started(kernel: KernelEvents) -> Iterator[Judgement]:
    gone = {event.bus_id for event in _off_bus_events(kernel)}
    told = set[str]()
    for event in kernel.of("unsupported", "init-failed", "probe-failed"):
        if event.bus_id not in gone | told:
            told.add(event.bus_id)
            unknown = event.kind == "unsupported"
            observed, remedy = ("this driver does not know it", _OTHER_DRIVER) if unknown else (_NOT_STARTED, None)
            yield Judgement(_gpu_at(event.bus_id), Verdict.FAIL, observed, evidence=event.text, remedy=remedy)


def _against_bus(usable: int, gpus: Gpus, pci: PciDevices | None) -> Judgement:
    on_bus = len(_for_the_driver(pci)) if pci else 0
    if not on_bus or (pci and not pci.complete and on_bus < usable):
        return Judgement(HOST, Verdict.UNKNOWN, f"{usable} GPUs", "a declared count, or the whole PCIe bus")
    return judged(
        HOST,
        usable >= on_bus,
        observed=f"{usable} GPUs",
        expected=f"{on_bus} GPUs, as on the PCIe bus",
        evidence=_missing(gpus, pci),
    )


def _for_the_driver(pci: PciDevices) -> list[str]:
    """Return the GPUs that are not handed to a virtual machine."""
    return [device.bus_id for device in pci.gpus if device.driver in (None, "nvidia")]


def _missing(gpus: Gpus, pci: PciDevices | None) -> str:
    """Name what the bus has and the driver does not; nothing when the two do not count in the same
    addresses.
    """
    listed = {gpu.bus_id for gpu in gpus.answering}
    on_bus = _for_the_driver(pci) if pci else []
    absent = [address for address in on_bus if address not in listed]
    return f"not listed by the driver: {', '.join(absent)}" if absent and len(absent) < len(on_bus) else ""


@check(
    "gpu.on-bus",
    remedy=by_hardware("Power cycle the host; if the GPU is lost again, reseat the board, then replace it."),
)
def on_bus(
    gpus: Gpus | None, pci: PciDevices | None, kernel: KernelEvents | None, answer: DriverAnswer | None
) -> Iterator[Judgement]:
    """Every GPU still answers on the PCIe bus.

    A GPU that fell off the bus (Xid 79, revision ff, "GPU is lost") takes every process that uses it
    along, and queries of the others may hang. Only a reset of the slot's power brings it back, if
    anything does.
    """
    signs = dict[str, list[str]]()
    for where, evidence in _signs(gpus, pci, kernel, answer):
        signs.setdefault(where, []).append(evidence)
    answering = {gpu.bus_id for gpu in gpus.answering} if gpus else set()
    for where, lines in signs.items():
        observed = "fell off the bus, answers again" if where in answering else "does not answer"
        yield Judgement(_gpu_at(where), Verdict.FAIL, observed, "answers on the bus", evidence=lines[0])
    for gpu in gpus.answering if gpus else ():
        if gpu.bus_id not in signs:
            yield Judgement(gpu.subject, Verdict.PASS, "answers")
    if gpus is None and pci:
        for device in pci.gpus:
            if device.bus_id not in signs:
                yield Judgement(_gpu_at(device.bus_id), Verdict.PASS, "on the bus")


def _signs(
    gpus: Gpus | None, pci: PciDevices | None, kernel: KernelEvents | None, answer: DriverAnswer | None
) -> Iterator[tuple[str, str]]:
    for event in _off_bus_events(kernel) if kernel else ():
        yield event.bus_id, event.text
    unlisted = _unlisted(gpus, pci)
    for gpu in gpus.gpus if gpus else ():
        if gpu.lost is not None:
            yield gpu.bus_id or (unlisted[0] if len(unlisted) == 1 else gpu.subject), gpu.lost
    for device in pci.gpus if pci else ():
        if device.unreachable:
            yield device.bus_id, f"{device.bus_id} reads as all ones (revision ff)"
    if answer and answer.state == "gpu lost":
        yield bus_id(answer.evidence), answer.evidence


def _unlisted(gpus: Gpus | None, pci: PciDevices | None) -> list[str]:
    """Return bus ids of GPUs that the driver does not name; a lost one often has an index only."""
    named = {gpu.bus_id for gpu in gpus.gpus} if gpus else set()
    return [device.bus_id for device in pci.gpus if device.bus_id not in named] if pci else []


def _off_bus_events(kernel: KernelEvents) -> tuple[KernelEvent, ...]:
    return (*kernel.xids(79), *kernel.of("off-bus", "lost"))


def _gpu_at(where: str) -> str:
    return where if where.startswith("gpu") else f"gpu {where}" if where else "a gpu"


@check(
    "gpu.persistence",
    remedy=by_hand("Enable and start nvidia-persistenced."),
    consequence_of=(*DRIVER_ANSWERS, "mig.drained"),
)
def persistence(gpus: Gpus) -> Iterator[Judgement]:
    """Persistence mode keeps the driver's state while no program uses the GPU.

    Without it each first use initialises the board again: seconds per GPU, container starts that time
    out, settings such as power limits lost between jobs.
    """
    yield from each(gpus, lambda gpu: gpu.persistence, _persistence)


def _persistence(gpu: Gpu, enabled: bool) -> Judgement:
    mild = bool(gpu.mig) or gpu.virtual
    return judged(
        gpu.subject,
        enabled,
        observed="on" if enabled else "off, with MIG on" if gpu.mig else "off",
        expected="on",
        otherwise=Verdict.NOTE if mild else Verdict.WARN,
    )


@check(
    "gpu.gsp",
    remedy=by_hand("Reset the GPU or reboot; if it returns, update the driver."),
)
def gsp(gpus: Gpus | None, versions: DriverVersions | None, kernel: KernelEvents | None) -> Iterator[Judgement]:
    """The GPU's own system processor (GSP) answers, with firmware of the driver's version.

    When it stops answering (Xid 119, 120), every call into the driver waits for its timeout: programs
    hang, and `nvidia-smi` with them.
    """
    silent = kernel.xids(*_GSP_XIDS) if kernel else ()
    for event in {event.bus_id: event for event in reversed(silent)}.values():
        yield Judgement(_gpu_at(event.bus_id), Verdict.FAIL, f"Xid {event.number}", "answers", evidence=event.text)
    module = versions.module if versions else None
    for gpu in gpus.answering if gpus else ():
        if gpu.gsp_firmware and module and not agree(gpu.gsp_firmware, module):
            yield note(gpu.subject, f"firmware {gpu.gsp_firmware}", expected=f"driver {module}")
    if kernel and not silent:
        unnamed = kernel.of("gsp-timeout")
        if unnamed:
            yield Judgement(HOST, Verdict.FAIL, "timeout", evidence=unnamed[0].text)
        else:
            yield nothing("no timeout", cut=kernel.cut)


@check(
    "gpu.recovery-action",
    remedy=by_hand("Drain the GPU and do what the driver asks for: reset or reboot."),
    consequence_of=DRIVER_ANSWERS,
)
def recovery_action(gpus: Gpus | None, kernel: KernelEvents | None) -> Iterator[Judgement]:
    """The driver asks for no reset, reboot or drain.

    From driver 570 on, GPU and kernel log (Xid 154) say what an error needs before the GPU can be trusted
    again.
    """
    asked = {event.bus_id: event for event in (kernel.xids(154) if kernel else ())}
    for where, event in asked.items():
        action = re.search(r" to 0x\w+ \((.+?)\)", event.text)
        yield _asked(_gpu_at(where), (action[1] if action else "see the line").lower(), event.text)
    rest = [gpu for gpu in gpus.gpus if gpu.bus_id not in asked] if gpus else []
    for gpu in rest:
        if gpu.recovery_action == "none":
            yield Judgement(gpu.subject, Verdict.PASS, "none")
        elif gpu.recovery_action:
            yield _asked(gpu.subject, gpu.recovery_action, "")
    if rest and all(gpu.recovery_action is None for gpu in rest):
        yield skip(HOST, "this driver does not tell")


def _asked(subject: str, action: str, evidence: str) -> Judgement:
    return Judgement(subject, Verdict.FAIL, action, "none", evidence=evidence, remedy=recovery(action))


@check("gpu.fan", consequence_of=DRIVER_ANSWERS)
def fan(gpus: Gpus) -> Iterator[Judgement]:
    """The fan of an actively cooled card can be read.

    Boards of servers have none and print N/A. A fan that cannot be read is worth a look, no more.
    """
    if gpus.gpus and all(gpu.fan is None for gpu in gpus.gpus):
        yield skip(HOST, "no fan is reported")
    yield from each(gpus, lambda gpu: gpu.fan, _fan)


def _fan(gpu: Gpu, text: str) -> Judgement:
    if "ERR" in text or "Error" in text:
        return note(gpu.subject, f"fan: {text}", expected="a speed")
    return skip(gpu.subject, "no fan") if text == "N/A" else Judgement(gpu.subject, Verdict.PASS, f"fan {text}")
