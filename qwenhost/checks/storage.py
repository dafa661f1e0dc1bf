"""Room on file systems, in shared memory and in memory."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.checks.host import TUNED
from qwenhost.checks.per_vllm import blamed
from qwenhost.facts.memory import Memory
from qwenhost.facts.mounts import Mount, Mounts, SharedMemoryFull
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.records.desired import Expectations, Setting
from qwenhost.records.finding import Verdict, by_hand

MIB, GIB = 1 << 20, 1 << 30

SHM = "/dev/shm"
CONTAINER_DEFAULT = 64 * MIB
SHM_SEVERAL_GPUS = 512 * MIB
"""Bytes: vLLM's message ring takes a quarter of a GiB, and NCCL some tens of MiB per GPU."""

FULL_BELOW = GIB
WATCHED = ("/", "/var", "/tmp", "/var/lib/docker", "/var/lib/containerd", "/root", "/home")


@check(
    "host.shm", remedy=by_hand("Give it more: --shm-size=16g or --ipc=host for a container, size= for a mount.")
)
def shm(
    mounts: Mounts | None, full: SharedMemoryFull | None, runs: VllmRuns | None, want: Expectations
) -> Iterator[Judgement]:
    """Shared memory is large enough for the workers of a model.

    Workers and NCCL talk through /dev/shm; a container gets 64 MiB unless told otherwise, and a model over
    several GPUs then fails to start.
    """
    mount = mounts.at.get(SHM) if mounts else None
    line = full.line if full else next((cause.line for _, cause in blamed("host.shm", runs)), "")
    if want.shm and not line:
        yield _declared_shm(mount, want.shm, want.why_not("shm"))
        return
    size = mount.size if mount else None
    several = bool(want.serving and any(len(item.gpus) > 1 for item in want.serving.instances))
    least = SHM_SEVERAL_GPUS if several else CONTAINER_DEFAULT + 1
    expected = f"at least {SHM_SEVERAL_GPUS // MIB} MiB"
    seen = "size not seen" if size is None else f"{size // MIB} MiB"
    if line:
        yield Judgement("host", Verdict.FAIL, f"full, {seen}", expected, line)
    elif mount and size is not None:
        yield judged(
            "host", size >= least, observed=seen, expected=expected, otherwise=Verdict.WARN, evidence=mount.line
        )


def _declared_shm(mount: Mount | None, wanted: Setting, why_not: str) -> Judgement:
    """The kernel counts in pages, and a size that is declared is a whole number of them."""
    if why_not:
        return skip("host", why_not)
    size = mount.size if mount else None
    return judged(
        "host",
        None if size is None else size == int(wanted.value),
        observed="size not seen" if size is None else f"{size // MIB} MiB",
        expected=f"{int(wanted.value) // MIB} MiB",
        evidence=mount.line if mount else "",
        origin=wanted.origin,
        remedy=TUNED,
    )


@check("host.disk", remedy=by_hand("Free room: old container images, model revisions and logs; or enlarge it."))
def disk(mounts: Mounts, want: Expectations) -> Iterator[Judgement]:
    """File systems that the host and its model need have room left.

    A full disk stops downloads, logs and compile caches, and often shows as quite another error.
    """
    wanted = {path: mount for path, mount in mounts.at.items() if path in WATCHED}
    model = want.serving.model_path if want.serving else ""
    home = max((path for path in mounts.at if _below(model, path)), key=len, default="")
    if home:
        wanted[home] = mounts.at[home]
    for path, mount in sorted(wanted.items()):
        yield _room(path, mount)


def _below(path: str, mount: str) -> bool:
    return path.startswith(mount.rstrip("/") + "/")


def _room(path: str, mount: Mount) -> Judgement:
    if mount.inodes and mount.inodes_free == 0:
        return Judgement(path, Verdict.WARN, "no inode free", "free inodes", mount.line)
    small = mount.size is not None and mount.size < 2 * FULL_BELOW
    if small and mount.free:
        return note(path, f"{mount.free // MIB} MiB free of {(mount.size or 0) // MIB} MiB")
    return judged(
        path,
        None if mount.free is None else mount.free >= FULL_BELOW,
        observed="free room not seen" if mount.free is None else f"{mount.free / GIB:.1f} GiB free",
        expected=f"at least {FULL_BELOW // GIB} GiB",
        otherwise=Verdict.WARN,
        evidence=mount.line,
    )


@check("host.swap", remedy=by_hand("Find what takes the memory, then run swapoff -a, and swapon -a if wanted."))
def swap(memory: Memory, want: Expectations) -> Iterator[Judgement]:
    """Memory is not swapped out.

    A server whose pages are on disk answers in seconds instead of milliseconds.
    """
    if not memory.swap_total:
        yield skip("host", "no swap")
        return
    if want.swap:
        yield _declared_off(memory, want.swap, want.why_not("swap"))
        return
    share = memory.swap_used / memory.swap_total
    short = memory.available is not None and memory.available < memory.total / 20
    observed = f"{memory.swap_used / (1 << 20):.1f} GiB of {memory.swap_total / (1 << 20):.1f} GiB in use"
    if share > 0.05 and not short:
        yield note("host", f"{observed}, memory is not short")
    else:
        yield judged("host", share <= 0.05, observed=observed, expected="none in use", otherwise=Verdict.WARN)


def _declared_off(memory: Memory, wanted: Setting, why_not: str) -> Judgement:
    if why_not:
        return skip("host", why_not)
    observed = f"{memory.swap_total / (1 << 20):.1f} GiB of swap"
    return Judgement("host", Verdict.FAIL, observed, "no swap", origin=wanted.origin, remedy=TUNED)


@check("host.memory", remedy=by_hand("Stop what takes the memory, or lower the reserved hugepages."))
def memory(memory: Memory) -> Iterator[Judgement]:
    """The host has memory left.

    When none is left the kernel kills a process, often the largest: the server.
    """
    if memory.available is None:
        return
    yield judged(
        "host",
        memory.available >= memory.total / 50,
        observed=f"{memory.available / (1 << 20):.1f} GiB of {memory.total / (1 << 20):.1f} GiB available",
        expected="at least 2 %",
        otherwise=Verdict.WARN,
    )
