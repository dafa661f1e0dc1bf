"""Who uses the GPUs, and at which clocks they may run."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.expectations.gpu_limits import gpu_limit
from qwenhost.facts.gpu_processes import GpuProcess, GpuProcesses, GpuUsers
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand

OURS = "vllm"
"""In the control group of the service's unit, and in the names that vLLM gives its processes."""


@check(
    "gpu.processes",
    remedy=by_hand("Find who started it (ps -fp PID) and end it, or give the service other GPUs."),
    consequence_of=DRIVER_ANSWERS,
)
def processes(users: GpuProcesses, gpus: Gpus | None, want: Expectations) -> Iterator[Judgement]:
    """GPUs that are to serve are used by their service alone, and no memory is held by nobody.

    vLLM takes nearly all memory when it starts and fails when somebody else has a part of it. A process that
    died badly, or one in a container that the driver cannot name, may hold memory until it is found.
    """
    known = {gpu.bus_id or gpu.index: gpu for gpu in gpus.gpus} if gpus else {}
    for user in users.gpus:
        gpu = known.get(user.bus_id or user.index) or Gpu(bus_id=user.bus_id, index=user.index)
        if gpu.lost is not None:
            yield skip(gpu.subject, "off the bus")
        elif user.computing is None:
            yield Judgement(gpu.subject, Verdict.UNKNOWN, "the driver does not tell who uses it")
        else:
            yield _used(gpu, user, user.computing, _serves(gpu.index, want))


def _serves(index: int | None, want: Expectations) -> bool:
    instances = want.serving.instances if want.serving else ()
    return any(not instance.gpus or index in instance.gpus for instance in instances if not instance.mig)


def _used(gpu: Gpu, user: GpuUsers, computing: tuple[GpuProcess, ...], serves: bool) -> Judgement:
    foreign = [process for process in computing if not _is_ours(process)]
    unexplained = (gpu.memory_used_mib or 0) - gpu_limit("memory_unexplained_mib")
    if foreign and serves:
        return Judgement(gpu.subject, Verdict.WARN, _told(foreign), "the service alone")
    if any(process.name is None for process in foreign):
        return note(gpu.subject, _told(foreign), expected="processes that the driver can name")
    if not user.processes and not gpu.mig and unexplained > 0:
        return _held(gpu, serves)
    return Judgement(gpu.subject, Verdict.PASS, _told(computing) or "nobody")


def _held(gpu: Gpu, serves: bool) -> Judgement:
    remedy = by_hand("Look for a process in a container or a dead one: fuser -v /dev/nvidia*.")
    verdict = Verdict.WARN if serves else Verdict.NOTE
    observed = f"{gpu.memory_used_mib} MiB in use, by no process that the driver lists"
    return Judgement(gpu.subject, verdict, observed, "memory with an owner", remedy=remedy)


def _is_ours(process: GpuProcess) -> bool:
    """Tell by the control group where it was seen, by the name elsewhere."""
    return OURS in (process.cgroup or process.name or "").lower()


def _told(found: list[GpuProcess] | tuple[GpuProcess, ...]) -> str:
    return ", ".join(
        f"{process.name or 'no such process'} (pid {process.pid}"
        + (f", {process.used_mib} MiB)" if process.used_mib is not None else ")")
        for process in found
    )


@check(
    "gpu.clocks",
    remedy=by_hand("Give the clocks back: nvidia-smi -i GPU -rac, and -rgc for locked ones; find what sets them."),
    consequence_of=DRIVER_ANSWERS,
)
def clocks(gpus: Gpus) -> Iterator[Judgement]:
    """No setting holds the GPUs' clocks below their default.

    Application clocks and locked clocks are lowered for measurements or to save power, and stay so until the
    next reset. Locked clocks cannot be read, only seen at work: a busy GPU then names the setting as its limit.
    """
    for gpu in gpus.answering:
        yield from _clocks(gpu)


def _clocks(gpu: Gpu) -> Iterator[Judgement]:
    now, allowed, default = gpu.clock_graphics_mhz, gpu.clock_application_mhz, gpu.clock_default_mhz
    working = (gpu.utilization_percent or 0) >= gpu_limit("working_percent")
    held = "application clocks" in (gpu.slowdowns or ()) and working
    lowered = allowed is not None and default is not None and allowed < default
    if held and now is not None and (lowered or (default is not None and now < default)):
        yield Judgement(gpu.subject, Verdict.WARN, f"held at {now} MHz by its setting", f"{default} MHz or more")
    elif lowered:
        yield note(gpu.subject, f"set to {allowed} MHz", expected=f"{default} MHz, the default")
    elif allowed is not None and default is not None:
        yield Judgement(gpu.subject, Verdict.PASS, f"{allowed} MHz", f"{default} MHz or more")
    elif held:
        yield note(gpu.subject, f"a setting of clocks is its limit{f', at {now} MHz' if now else ''}")
    elif gpu.slowdowns is not None:
        yield skip(gpu.subject, "this driver no longer tells application clocks, and no setting is its limit now")
