"""MIG: mode and layout as declared, and used as it can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from qwenhost.checks.declare import Judgement, check, equal, judged, note, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS, each
from qwenhost.facts.cuda_errors import CudaErrors
from qwenhost.facts.drained import Drained
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.mig import MigInstances
from qwenhost.facts.mig_at_boot import MigAtBoot
from qwenhost.records.desired import Expectations, MigLayout
from qwenhost.records.finding import Verdict, by_hand, by_reboot, by_role

HOST = "host"
BOOT_UNIT = "qwenhost-mig.service"

_ROLE = by_role("gpu_partitions")

_RESET = by_reboot("Stop what uses the GPU and reset it (nvidia-smi -i GPU -r), or reboot.")


def _managed(want: Expectations) -> bool:
    return want.mig is not None


def _declared(index: int | None, want: Expectations) -> MigLayout | None:
    return next((layout for layout in want.mig or () if layout.gpu == index), None)


@check("mig.mode", remedy=_ROLE, consequence_of=DRIVER_ANSWERS)
def mode(gpus: Gpus, want: Expectations) -> Iterator[Judgement]:
    """MIG mode is what was declared, on every GPU, with no change waiting for a reset.

    A GPU in MIG mode without instances runs no CUDA program; one that should be partitioned and is not is
    taken whole by the first. The mode survives a reboot, the instances do not.
    """
    yield from each(gpus, _mode_of, lambda gpu, text: _mode(gpu, text, want))


def _mode_of(gpu: Gpu) -> str | None:
    """Return on or off; "unsupported" for a product that was read and has no MIG."""
    if gpu.mig is not None:
        return "on" if gpu.mig else "off"
    return "unsupported" if gpu.performance_state is not None or gpu.memory_total_mib is not None else None


def _mode(gpu: Gpu, text: str, want: Expectations) -> Judgement:
    layout = _declared(gpu.index, want)
    if layout and text != ("on" if layout.enabled else "off"):
        wanted = "on" if layout.enabled else "off"
        if gpu.mig is not None and gpu.mig_pending == layout.enabled:
            waits = f"{text}, {wanted} after a reset"
            return Judgement(gpu.subject, Verdict.FAIL, waits, wanted, remedy=_RESET, origin=layout.origin)
        return Judgement(gpu.subject, Verdict.FAIL, text, wanted, origin=layout.origin)
    if text == "unsupported":
        return skip(gpu.subject, "no MIG")
    if gpu.mig_pending is not None and gpu.mig_pending != gpu.mig:
        waits = f"{text}, {'on' if gpu.mig_pending else 'off'} after a reset"
        return Judgement(gpu.subject, Verdict.WARN, waits, "no change pending", remedy=_RESET)
    if text == "on" and layout is None:
        return note(gpu.subject, "on", expected="not declared")
    return Judgement(gpu.subject, Verdict.PASS, text, text)


@check(
    "mig.instances",
    remedy=by_hand(
        "Create instances (nvidia-smi mig -i GPU -cgi PROFILES -C), or switch MIG off (-i GPU -mig 0)."
    ),
    consequence_of=(*DRIVER_ANSWERS, "mig.mode", "mig.layout"),
)
def instances(gpus: Gpus, devices: MigInstances | None) -> Iterator[Judgement]:
    """A GPU in MIG mode has MIG devices.

    Without instances no CUDA program can use it, while nvidia-smi shows a healthy GPU. The mode outlives a
    reboot, the instances do not.
    """
    parted = [gpu for gpu in gpus.answering if gpu.mig]
    for gpu in parted if devices else ():
        if gpu.index is not None and devices:
            count = len(devices.on(gpu.index))
            yield judged(gpu.subject, count > 0, observed=f"{count} MIG devices", otherwise=Verdict.WARN)
    if not parted and gpus.answering and any(_mode_of(gpu) for gpu in gpus.answering):
        yield skip(HOST, "MIG is off")


@check(
    "mig.layout",
    remedy=_ROLE,
    applies=_managed,
    skipped="partitions are not declared",
    consequence_of=(*DRIVER_ANSWERS, "mig.mode"),
)
def layout(instances: MigInstances, want: Expectations) -> Iterator[Judgement]:
    """Each GPU has the MIG devices that were declared, no fewer and no others.

    Instances are lost at each reboot and reset and have to be made again before the services that use
    them start.
    """
    for declared in want.mig or ():
        yield _layout(declared, instances)
    if not want.mig:
        yield judged(
            HOST, not instances.devices, observed=f"{len(instances.devices)} MIG devices", expected="none"
        )


def _layout(declared: MigLayout, instances: MigInstances) -> Judgement:
    there = instances.on(declared.gpu)
    wanted = Counter(declared.profiles if declared.enabled else ())
    named = all(device.profile for device in there)
    same = Counter(device.profile for device in there) == wanted if named else None
    if len(there) != wanted.total():
        same = False
    return judged(
        f"gpu{declared.gpu}",
        same,
        observed=_counted(Counter(device.profile or "unnamed" for device in there)),
        expected=_counted(wanted),
        origin=declared.origin,
    )


def _counted(profiles: Counter[str]) -> str:
    return ", ".join(f"{name} x{times}" for name, times in sorted(profiles.items())) or "none"


@check(
    "mig.next-boot",
    remedy=_ROLE,
    applies=_managed,
    skipped="partitions are not declared",
    consequence_of=("mig.mode", "mig.layout"),
)
def next_boot(left: MigAtBoot, want: Expectations) -> Iterator[Judgement]:
    """What is made at the next boot is what is declared.

    Instances do not outlive a reboot. A host whose layout is in force now, without the unit that makes it
    again, serves until somebody reboots it.
    """
    layouts = want.mig or ()
    parted = any(layout.enabled for layout in layouts)
    wanted = {layout.gpu: layout.profiles if layout.enabled else None for layout in layouts} if parted else {}
    for gpu in sorted({*wanted, *left.profiles}):
        yield equal(f"gpu{gpu}", _at_boot(left.profiles, gpu), _at_boot(wanted, gpu))
    if parted or left.runs:
        yield equal(BOOT_UNIT, "enabled" if left.runs else "not enabled", "enabled" if parted else "not enabled")
    if not (wanted or left.profiles or left.runs):
        yield Judgement(HOST, Verdict.PASS, "nothing", "nothing")


def _at_boot(profiles: Mapping[int, tuple[str, ...] | None], gpu: int) -> str:
    found = profiles.get(gpu, "nothing")
    return "no MIG" if found is None else found if isinstance(found, str) else _counted(Counter(found))


@check("mig.drained", remedy=_ROLE, applies=_managed, skipped="partitions are not declared")
def drained(left: Drained) -> Iterator[Judgement]:
    """Services that were stopped for partitioning run again.

    A run that was killed between the stop and the start leaves metrics, persistence mode or the model
    itself off, and nothing on the host starts them before the next boot.
    """
    for unit in left.units:
        yield Judgement(unit, Verdict.FAIL, "stopped by an interrupted run", "running")
    if not left.units:
        yield Judgement(HOST, Verdict.PASS, "none is stopped", "none")


@check(
    "mig.one-per-process",
    remedy=by_hand(
        "Give each process one MIG device (CUDA_VISIBLE_DEVICES=MIG-...), with tensor parallel size 1."
    ),
    consequence_of=DRIVER_ANSWERS,
)
def one_per_process(gpus: Gpus | None, errors: CudaErrors | None, want: Expectations) -> Iterator[Judgement]:
    """No process is given more than one MIG device.

    CUDA enumerates a single MIG device per process: a program that counts on two stops with an assertion
    or an invalid device ordinal.
    """
    if gpus is None:
        return
    if not any(gpu.mig for gpu in gpus.gpus):
        yield skip(HOST, "MIG is off") if any(gpu.mig is False for gpu in gpus.gpus) else skip(HOST, "no MIG")
        return
    greedy = errors.of("more devices than visible") if errors else None
    if greedy:
        yield Judgement(HOST, Verdict.FAIL, "a process counts on more", "one MIG device", evidence=greedy.line)
    for instance in want.serving.instances if want.serving else ():
        size = _tensor_parallel(instance.args)
        if instance.mig:
            yield judged(f"vllm {instance.name}", size == 1, observed=f"tensor parallel size {size}", expected="1")
    if not greedy and not (want.serving and any(instance.mig for instance in want.serving.instances)):
        yield skip(HOST, "nothing declared, and no program reported it")


def _tensor_parallel(args: object) -> int:
    value = args.get("tensor-parallel-size", 1) if hasattr(args, "get") else 1
    return int(str(value))


@check(
    "mig.p2p",
    remedy=by_hand("Use MIG devices for independent processes; for tensor parallelism switch MIG off."),
    consequence_of=(*DRIVER_ANSWERS, "mig.one-per-process"),
)
def p2p(gpus: Gpus | None, errors: CudaErrors | None) -> Iterator[Judgement]:
    """Nothing expects MIG devices to talk to one another.

    There is no NCCL and no peer access between MIG devices of different GPUs: two ranks on one GPU are
    refused as a duplicate.
    """
    if gpus is None:
        return
    if not any(gpu.mig for gpu in gpus.gpus):
        yield skip(HOST, "MIG is off")
        return
    twice = errors.of("one gpu twice") if errors else None
    if twice:
        yield Judgement(HOST, Verdict.FAIL, "NCCL between MIG devices", "none", evidence=twice.line)
    else:
        yield skip(HOST, "no program reported it")
