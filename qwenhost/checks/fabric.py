"""The NVSwitch fabric: switches, and the manager that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.checks.logs import nothing, when
from qwenhost.checks.per_gpu import DRIVER_ANSWERS, each
from qwenhost.expectations.driver_tables import sxid
from qwenhost.facts.cuda_errors import CudaErrors
from qwenhost.facts.driver import DriverVersions
from qwenhost.facts.fabric import FabricManager
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.nvlink import NvLinks
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.service_starts import FabricManagerStart, VllmStarts
from qwenhost.facts.switch_errors import SwitchError, SwitchErrors
from qwenhost.facts.vllm import VllmHealth
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand, by_hardware, by_reboot

HOST = "host"

_HTTP_OK = 200


def _needed(pci: PciDevices | None, manager: FabricManager | None, want: Expectations) -> bool | None:
    """Tell whether there are NVSwitches to manage; None when nothing shows it."""
    if manager and manager.nothing_to_do:
        return False
    if pci and (pci.switches or pci.gpus):
        return bool(pci.switches)
    if want.sku and not want.sku.form.startswith("sxm"):
        return False
    return None


@check("fabric.needed", remedy=by_hand("Disable nvidia-fabricmanager.service: there is no NVSwitch to manage."))
def needed(pci: PciDevices | None, manager: FabricManager | None, want: Expectations) -> Iterator[Judgement]:
    """The fabric manager is set up where NVSwitches are, and only there.

    On hosts without NVSwitches its unit fails at each boot; that failure means nothing.
    """
    there = _needed(pci, manager, want)
    if there is None:
        return
    failed = manager is not None and (manager.active == "failed" or manager.nothing_to_do)
    switches = len(pci.switches) if pci else 0
    if there:
        yield Judgement(HOST, Verdict.PASS, f"needed: {switches} NVSwitches")
    elif failed and manager:
        yield note(HOST, "not needed, and its unit fails: harmless", evidence=manager.evidence or "")
    else:
        yield Judgement(HOST, Verdict.PASS, "not needed: no NVSwitch")


@check(
    "fabric.running",
    remedy=by_hand("Install nvidia-fabricmanager of the driver's exact version; enable and start its service."),
    consequence_of=("fabric.version", "driver.installed"),
)
def running(
    pci: PciDevices | None, manager: FabricManager | None, errors: CudaErrors | None, want: Expectations
) -> Iterator[Judgement]:
    """The fabric manager runs where NVSwitches have to be set up.

    Without it the driver looks healthy, yet each CUDA program on an NVSwitch host stops with error 802,
    system not yet initialized.
    """
    there = _needed(pci, manager, want)
    if there is False:
        yield skip(HOST, "no NVSwitch")
        return
    not_ready = errors.of("not ready") if errors else None
    symptom = not_ready is not None or (manager is not None and manager.mismatch is not None)
    if manager is None or manager.running is None:
        if not_ready:
            yield Judgement(HOST, Verdict.FAIL, "the fabric is not set up", "active", evidence=not_ready.line)
        return
    if there is None and not symptom:
        return
    observed = "not installed" if manager.installed is False else manager.active or ""
    evidence = manager.evidence or (not_ready.line if not_ready else "")
    yield judged(HOST, manager.running, observed=observed, expected="active", evidence=evidence)


@check(
    "fabric.version",
    remedy=by_hand(
        "Install nvidia-fabricmanager of the loaded driver's version, and hold both packages together."
    ),
    consequence_of=(*DRIVER_ANSWERS, "driver.installed"),
)
def version(
    pci: PciDevices | None, manager: FabricManager | None, versions: DriverVersions | None, want: Expectations
) -> Iterator[Judgement]:
    """The fabric manager's version is exactly the loaded driver's.

    It refuses any other, to the last digit. After an upgrade of both the old module stays loaded until
    the reboot.
    """
    if _needed(pci, manager, want) is False:
        yield skip(HOST, "no NVSwitch")
        return
    if manager and manager.mismatch:
        own, driver = manager.mismatch
        yield Judgement(HOST, Verdict.FAIL, own, f"{driver}, the driver's", evidence=manager.evidence or "")
        return
    module = versions.module if versions else None
    if manager and manager.installed is False:
        yield skip(HOST, "not installed")
    elif manager and manager.version and module:
        newer_library = versions is not None and versions.library == manager.version != module
        reboot = by_reboot("Reboot: the installed driver has this version, an older module is still loaded.")
        yield judged(
            HOST,
            manager.version == module,
            observed=manager.version,
            expected=f"{module}, the loaded driver's",
            remedy=reboot if newer_library else None,
        )


@check(
    "fabric.state",
    remedy=by_hand("Wait for the fabric manager, then restart it; look at its log."),
    consequence_of=DRIVER_ANSWERS,
)
def state(gpus: Gpus) -> Iterator[Judgement]:
    """Each GPU that registers with the fabric has finished doing so.

    A100 boards do not report this and print N/A; where it stays "in progress", programs wait or stop.
    """
    if gpus.gpus and all(gpu.fabric_state is None for gpu in gpus.gpus):
        yield skip(HOST, "this product does not report it")
        return
    yield from each(gpus, lambda gpu: gpu.fabric_state, _state)


def _state(gpu: Gpu, text: str) -> Judgement:
    status = gpu.fabric_status
    refused = status is not None and status != "success"
    return judged(
        gpu.subject,
        text == "completed" and not refused,
        observed=f"{text}: {status}" if refused else text,
        expected="completed",
        otherwise=Verdict.WARN,
    )


@check(
    "fabric.switches",
    remedy=by_hardware("Give the virtual machine its NVSwitches, or service the baseboard that lost them."),
    consequence_of=DRIVER_ANSWERS,
)
def switches(
    pci: PciDevices,
    gpus: Gpus | None,
    nvlinks: NvLinks | None,
    errors: CudaErrors | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """The NVSwitches that a baseboard of eight GPUs needs are on the bus.

    In a virtual machine that was given the GPUs alone, CUDA waits for a fabric that it cannot see (error
    802).
    """
    not_ready = errors.of("not ready") if errors else None
    if pci.switches:
        yield Judgement(HOST, Verdict.PASS, f"{len(pci.switches)} NVSwitches")
    elif not_ready and _on_baseboard(pci, gpus, want):
        yield Judgement(HOST, Verdict.FAIL, "no NVSwitch", "the baseboard's", evidence=not_ready.line)
    elif not _expects_switches(pci, gpus, want):
        yield skip(HOST, "no baseboard with NVSwitches")
    elif (nvlinks and any(gpu.up for gpu in nvlinks.gpus)) or pci.virtual or bool(gpus and gpus.virtual):
        yield note(HOST, "no NVSwitch on the bus: the host of this virtual machine keeps them")
    elif pci.complete:
        yield Judgement(HOST, Verdict.FAIL, "no NVSwitch", "the baseboard's")


def _on_baseboard(pci: PciDevices, gpus: Gpus | None, want: Expectations) -> bool:
    if want.sku:
        return want.sku.form.startswith("sxm")
    names = [device.name or "" for device in pci.gpus]
    names += [gpu.name or "" for gpu in gpus.gpus] if gpus else []
    return any("SXM" in name or "HBM3" in name for name in names)


def _expects_switches(pci: PciDevices, gpus: Gpus | None, want: Expectations) -> bool:
    count = want.gpus or max(len(pci.gpus), gpus.listed if gpus else 0)
    return want.sku is not None and count in want.sku.nvswitch_at_gpus


@check(
    "fabric.switch-errors",
    remedy=by_hardware("Stop the GPU programs and reboot the host; if the error returns, service the baseboard."),
)
def switch_errors(
    errors: SwitchErrors, pci: PciDevices | None, manager: FabricManager | None, want: Expectations
) -> Iterator[Judgement]:
    """No NVSwitch reported an error (SXid) that still stands.

    All GPUs of a baseboard talk through its switches. A fatal error stops the traffic of a link or of the
    whole fabric until it is reset; GPUs then report Xid 74 or 45, which are its consequences.
    """
    groups: dict[tuple[str, int], list[SwitchError]] = {}
    for error in errors.errors:
        groups.setdefault((error.bus_id, error.number), []).append(error)
    for found in groups.values():
        yield _switch_error(found)
    if not groups and _needed(pci, manager, want) is False:
        yield skip(HOST, "no NVSwitch")
    elif not groups:
        yield nothing("no SXid stands", cut=errors.cut)


def _switch_error(errors: Sequence[SwitchError]) -> Judgement:
    error, meaning = errors[0], sxid(errors[0].number, errors[0].text)
    links = ", ".join(dict.fromkeys(error.link for error in errors if error.link))
    parts = (meaning.meaning, f"link {links}" if links else "", when(errors[0].at, errors[-1].at))
    return Judgement(
        f"nvswitch {error.bus_id}",
        meaning.repeated if len(errors) > 1 else meaning.verdict,
        f"SXid {error.number} x{len(errors)}: {', '.join(filter(None, parts))}",
        "none",
        evidence=error.text,
        remedy=meaning.remedy,
    )


@check(
    "fabric.restart",
    remedy=by_hand("Read why it stopped (journalctl -u nvidia-fabricmanager), then restart the GPU programs."),
    consequence_of=("fabric.running",),
)
def restart(
    pci: PciDevices | None,
    manager: FabricManager | None,
    start: FabricManagerStart | None,
    vllm: VllmStarts | None,
    health: VllmHealth | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """The fabric manager has run without a break since the GPUs are in use.

    When it stops, the driver ends the CUDA programs on that fabric, or they go on without its care for
    link errors. A service that was started before the fabric manager's last start may hold GPUs that no
    longer reach one another; one that answers is worth a note only.
    """
    if _needed(pci, manager, want) is False:
        yield skip(HOST, "no NVSwitch")
    elif manager and manager.running is False:
        yield skip(HOST, "it does not run")
    elif start:
        answers = health is not None and {status for status, _ in health.answers.values()} == {_HTTP_OK}
        earlier = [name for name, at in vllm.started_seconds.items() if at < start.started_seconds] if vllm else []
        yield from (_older(name, answers) for name in earlier)
        if start.restarts:
            yield note(HOST, f"systemd started it again {start.restarts} times", expected="never")
        elif not earlier:
            yield Judgement(HOST, Verdict.PASS, f"runs since {start.started_seconds:.0f} s after boot")


def _older(name: str, answers: bool) -> Judgement:
    observed = "older than the fabric manager" + (", answers" if answers else "")
    verdict = Verdict.NOTE if answers else Verdict.WARN
    again = by_hand(f"Restart the service: systemctl restart vllm@{name}.")
    return Judgement(f"vllm@{name}", verdict, observed, "younger", remedy=again)
