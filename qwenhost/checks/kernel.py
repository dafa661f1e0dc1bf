"""What the kernel log says of the host itself: tasks that hang, memory that ran out, hardware errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from qwenhost.checks.declare import Judgement, check
from qwenhost.checks.logs import nothing, when
from qwenhost.checks.per_vllm import blamed
from qwenhost.expectations.driver_tables import xid
from qwenhost.expectations.kernel_names import may_serve, owner_of, serves
from qwenhost.facts.hung_tasks import HungTask, HungTasks
from qwenhost.facts.kernel_log import KernelEvents
from qwenhost.facts.machine_checks import HardwareError, HardwareErrors
from qwenhost.facts.oom_kills import OomKill, OomKills
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.records.finding import Remedy, Verdict, by_hand, by_hardware, by_reboot

HOST = "host"

_DAY_SECONDS = 86_400

_REMEDIES = {
    "GPU driver": by_reboot(
        "Save nvidia-bug-report.sh's output, then reboot: what waits in the driver does not end."
    ),
    "storage": by_hand(
        "Look at the file system or disk named here (mount, servers, iostat -x 1); the GPU is not it."
    ),
    "network": by_hand("Look at the network device named here; the GPU is not it."),
}


@check("host.hung-tasks", remedy=by_hand("Read the stacks (dmesg), and look at what the tasks wait for."))
def hung(tasks: HungTasks, kernel: KernelEvents | None) -> Iterator[Judgement]:
    """No task hangs inside the kernel.

    A task that the kernel reports as blocked cannot be killed and holds its GPUs and memory. Its stack tells
    whether it waits for the GPU driver, for storage or for something else: a job that stands still
    because a file server does not answer looks like a broken GPU.
    """
    groups: dict[tuple[str, str, bool], list[HungTask]] = {}
    for task in tasks.tasks:
        owner, where = owner_of(task.frames)
        groups.setdefault((owner, where, task.stuck), []).append(task)
    for (owner, where, _), reports in groups.items():
        yield _hung(owner, where, reports, _gpu_error(kernel) if owner == "GPU driver" else "")
    if not groups:
        yield nothing("no task hung", cut=tasks.cut)


def _gpu_error(kernel: KernelEvents | None) -> str:
    """Return the Xid that tells why the driver does not answer; empty for none."""
    grave = [event for event in (kernel.xids() if kernel else ()) if xid(event.number).verdict is Verdict.FAIL]
    return f"a consequence of Xid {grave[0].number} of {grave[0].bus_id}" if grave else ""


def _hung(owner: str, where: str, reports: Sequence[HungTask], cause: str) -> Judgement:
    by_driver = owner == "GPU driver"
    seen = "kept a processor busy" if reports[0].stuck else "blocked"
    waits = f"in {owner} ({where})" if owner else "in code of no known owner"
    parts = (
        f"{_names(report.task for report in reports)} {seen} x{len(reports)} {waits}",
        cause,
        "" if by_driver or not owner else "not the GPU",
        when(reports[0].at, reports[-1].at),
    )
    return Judgement(
        f"{owner} {where}".strip() or HOST,
        Verdict.NOTE if cause else Verdict.FAIL if by_driver else Verdict.WARN,
        ", ".join(filter(None, parts)),
        "none",
        evidence=reports[0].text,
        remedy=Remedy() if cause else _REMEDIES.get(owner),
        consequence_of="driver.present" if by_driver else "",
    )


@check(
    "host.oom",
    remedy=by_hand(
        "Find what grew (ps -eo rss,comm --sort -rss), and give the host more memory or less work: hugepages, "
        "pinned and shared memory count too."
    ),
)
def oom(kills: OomKills | None, runs: VllmRuns | None) -> Iterator[Judgement]:
    """The kernel killed no process for want of memory.

    vLLM keeps weights while loading, pinned buffers and offloaded cache in host memory. When the kernel
    kills one of its processes, the service dies without a word in its own log.
    """
    groups: dict[tuple[str, bool, str], list[OomKill]] = {}
    for kill in kills.kills if kills else ():
        groups.setdefault((kill.task, kill.limited, kill.group), []).append(kill)
    for events in groups.values():
        yield _killed(events)
    told = () if groups else tuple(blamed("host.oom", runs))
    for subject, cause in told:
        yield Judgement(subject, Verdict.FAIL, cause.observed, "enough memory", evidence=cause.line)
    if kills and not groups and not told:
        yield nothing("no process was killed for want of memory", cut=kills.cut)


def _killed(events: Sequence[OomKill]) -> Judgement:
    kill = events[-1]
    ours = serves(kill.task) or serves(kill.group)
    minor = kill.limited and not may_serve(kill.task)
    size = f"it had {kill.anonymous_mib} MiB" if kill.anonymous_mib else ""
    short = f"limit of its control group {kill.group}".strip() if kill.limited else "the host had no memory left"
    more = by_hand("Raise the limit (MemoryMax= of the unit, --memory of the container), or lower what it holds.")
    return Judgement(
        f"process {kill.task}",
        Verdict.FAIL if ours else Verdict.NOTE if minor else Verdict.WARN,
        ", ".join(filter(None, (f"killed x{len(events)}: {short}", size, when(events[0].at, events[-1].at)))),
        "none",
        evidence=kill.text,
        remedy=more if kill.limited else None,
    )


@check(
    "host.machine-check",
    remedy=by_hardware("Find the part in the management controller's log (ipmitool sel elist), and replace it."),
)
def machine_check(hardware: HardwareErrors) -> Iterator[Judgement]:
    """Processors and memory reported no error that could not be corrected.

    An uncorrected one kills a program or the host, and what it computed until then is suspect. Corrected
    ones cost nothing; a rate that grows announces the others.
    """
    uncorrected = [error for error in hardware.errors if not error.corrected]
    for where in dict.fromkeys(error.where for error in uncorrected):
        yield _uncorrected(where, [error for error in uncorrected if error.where == where])
    corrected = _fullest([error for error in hardware.errors if error.corrected])
    if corrected:
        yield _corrected(corrected)
    if not hardware.errors:
        yield nothing("no hardware error", cut=hardware.cut)


def _uncorrected(where: str, errors: Sequence[HardwareError]) -> Judgement:
    seen = ", ".join(filter(None, (f"{_count(errors)} uncorrected", when(errors[0].at, errors[-1].at))))
    return Judgement(f"{HOST} {where}".strip(), Verdict.FAIL, seen, "none", evidence=errors[0].text)


def _corrected(errors: Sequence[HardwareError]) -> Judgement:
    places = ", ".join(list(dict.fromkeys(error.where for error in errors if error.where))[:3])
    parts = (f"{_count(errors)} corrected", places, _rate(errors), when(errors[0].at, errors[-1].at))
    return Judgement(HOST, Verdict.NOTE, ", ".join(filter(None, parts)), evidence=errors[0].text, remedy=Remedy())


def _fullest(errors: Sequence[HardwareError]) -> list[HardwareError]:
    """Return the errors of the reporter that counts most: several reporters tell of the same errors."""
    by_reporter: dict[str, list[HardwareError]] = {}
    for error in errors:
        by_reporter.setdefault(error.reporter, []).append(error)
    return max(by_reporter.values(), key=_count, default=[])


def _count(errors: Iterable[HardwareError]) -> int:
    return sum(error.count for error in errors)


def _rate(errors: Sequence[HardwareError]) -> str:
    """Return errors per day, where a day has passed between the first and the last."""
    span = errors[-1].seconds - errors[0].seconds
    if not errors[0].clock or errors[0].clock != errors[-1].clock or span < _DAY_SECONDS:
        return ""
    return f"{_count(errors) / span * _DAY_SECONDS:.1f} a day"


def _names(names: Iterable[str]) -> str:
    first, *rest = dict.fromkeys(names)
    return f"{first} and {len(rest)} more" if rest else first
