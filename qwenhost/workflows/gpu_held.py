"""What an instance's processes hold of each GPU, as the driver tells it on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qwenhost.facts.gpu_processes import GpuProcess, GpuProcesses
from qwenhost.facts.gpus import NVML
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Serving
from qwenhost.records.finding import Verdict
from qwenhost.records.host import Host
from qwenhost.workflows.observed import fact_of
from qwenhost.workflows.smoke.service import Seen, Unanswered, skipped

SOURCES = (NVML,)
"""The one that names each process's control group, and so its unit."""

Look = Callable[[], Bundle]
"""Reads the SOURCES on a host now. Raises HostUnreachable."""


def over_ssh(host: Host) -> Look:
    """Return a way to look at a host that is reached by SSH."""
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    return lambda: ssh.fetch(host, SOURCES)


def held_mib(serving: Serving, instance: str, look: Look) -> Mapping[str, int]:
    """Return "gpu0" -> MiB of an instance. Raises Unanswered where the driver does not tell."""
    seen = fact_of(look(), GpuProcesses)
    if seen is None or any(gpu.processes is None for gpu in seen.gpus):
        raise Unanswered(Seen(Verdict.UNKNOWN, "the driver does not tell who holds its GPUs"))
    ours = {f"gpu{gpu.index}": _of_unit(gpu.processes or (), f"vllm@{instance}.service") for gpu in seen.gpus}
    held = {gpu: processes for gpu, processes in ours.items() if processes}
    if not held and serving.package != "vllm":
        raise Unanswered(skipped(f"{serving.package} holds no GPU memory"))
    if not held or any(process.used_mib is None for processes in held.values() for process in processes):
        raise Unanswered(Seen(Verdict.UNKNOWN, f"the driver tells no memory of vllm@{instance}"))
    return {gpu: sum(process.used_mib or 0 for process in processes) for gpu, processes in held.items()}


def _of_unit(processes: tuple[GpuProcess, ...], unit: str) -> list[GpuProcess]:
    return [process for process in processes if unit in (process.cgroup or "").split("/")]
