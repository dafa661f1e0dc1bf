"""Containers: an engine that runs, NVIDIA's toolkit beside it, and containers that get the GPUs and keep them.

All of it applies only where an engine was seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.facts.container_errors import ContainerErrors
from qwenhost.facts.containers import ContainerFiles, ContainerPrograms, ContainerUnits, DockerInfo
from qwenhost.facts.driver import DriverAnswer, DriverVersions
from qwenhost.records.finding import Remedy, Verdict, by_hand
from qwenhost.records.versions import agree

HOST = "host"
CONTAINER = "container"

_CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
_GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

_NONE = "no container engine was seen"


def _engine(programs: ContainerPrograms | None, info: DockerInfo | None, errors: ContainerErrors | None) -> str:
    """Return a name of what was seen of an engine, empty for nothing."""
    if programs and programs.engines:
        return programs.engines[0]
    if info:
        return "docker"
    return "an engine" if errors and errors.of_container else ""


@check(
    "container.engine",
    remedy=by_hand("Ask why: systemctl status docker; journalctl -u docker -n 50. Then start it."),
)
def engine(
    programs: ContainerPrograms | None,
    units: ContainerUnits | None,
    info: DockerInfo | None,
    files: ContainerFiles | None,
    errors: ContainerErrors | None,
) -> Iterator[Judgement]:
    """The container engine runs, and would start again.

    A daemon.json with a slip in it is only felt at the next restart, which takes all containers down.
    """
    down = errors.of("engine down") if errors else None
    states = {name: state for name, state in units.states.items() if name != "nvidia-cdi-refresh"} if units else {}
    if files and files.broken_json:
        remedy = by_hand("Correct /etc/docker/daemon.json; dockerd --validate tells whether it is right.")
        yield Judgement(
            "docker", Verdict.WARN, "daemon.json is no JSON", evidence=files.broken_json, remedy=remedy
        )
    elif down and programs and programs.engines == ("docker",) and not states:
        yield note("docker", "only its client is installed", evidence=down.line)
    elif down:
        yield Judgement("docker", Verdict.WARN, "does not answer", "answers", evidence=down.line)
    elif info:
        yield Judgement("docker", Verdict.PASS, f"answers, version {info.version}")
    elif not _engine(programs, info, errors):
        yield skip(HOST, _NONE)
    elif not states:
        yield note(HOST, f"{_engine(programs, info, errors)} is installed, without a service of its own")
    for name, state in states.items() if not info and not down else ():
        yield _service(name, state)


def _service(name: str, state: str) -> Judgement:
    verdict = {"active": Verdict.PASS, "failed": Verdict.WARN}.get(state, Verdict.NOTE)
    return Judgement(name, verdict, state, "active" if state == "failed" else "")


@check("container.toolkit", remedy=by_hand(f"Install the package nvidia-container-toolkit, then: {_CONFIGURE}."))
def toolkit(
    programs: ContainerPrograms | None,
    info: DockerInfo | None,
    files: ContainerFiles | None,
    errors: ContainerErrors | None,
) -> Iterator[Judgement]:
    """NVIDIA's container toolkit is there, and the engine knows of it.

    Without it the engine cannot hand a GPU to any container, however healthy the host is.
    """
    complaint = errors.of("no toolkit") if errors else None
    installed = programs.toolkit if programs else ""
    known = (info and info.hands_out_gpus) or (files and (files.nvidia_runtime or files.cdi_driver))
    if complaint:
        remedy = by_hand(f"Make it known to the engine: {_CONFIGURE}.") if installed else None
        observed = "installed, but not known to the engine" if installed else "the engine has no way to the GPUs"
        yield Judgement(HOST, Verdict.FAIL, observed, "set up", evidence=complaint.line, remedy=remedy)
    elif not _engine(programs, info, errors):
        yield skip(HOST, _NONE)
    elif files and files.legacy_hook and files.cdi_driver:
        remedy = by_hand(f"Remove {files.legacy_hook}: CDI does its work.")
        yield Judgement(HOST, Verdict.NOTE, "the old hook and CDI are both set up", "one of them", remedy=remedy)
    elif installed or known:
        yield Judgement(HOST, Verdict.PASS, installed or "known to the engine")
    elif programs:
        yield note(HOST, "not installed: containers here get no GPU")


_WHERE_LOST = by_hand(
    "Run nvidia-smi on the host: if it answers, restart the container, and stop systemd from taking its devices"
    " (nvidia-ctk system create-dev-char-symlinks, or CDI); if not, read the kernel log for Xids."
)
_RESTART_CONTAINERS = by_hand(
    "Restart the containers. To keep it from happening again, hand out GPUs through CDI (--device"
    ' nvidia.com/gpu=all) or set "exec-opts": ["native.cgroupdriver=cgroupfs"] in /etc/docker/daemon.json.'
)

_BY_KIND: dict[str, tuple[str, Remedy]] = {
    "no toolkit": ("no GPU was handed out", by_hand(f"Install nvidia-container-toolkit, then: {_CONFIGURE}.")),
    "no device files": (
        "the CDI specification is missing or out of date",
        by_hand(f"Write it anew: {_GENERATE}."),
    ),
    "driver does not fit": (
        "the image asks for a newer driver",
        by_hand("Update the driver, or take an image of an older CUDA; NVIDIA_DISABLE_REQUIRE=1 only hides it."),
    ),
    "driver": (
        "the driver did not answer the container runtime",
        by_hand("Put the driver on the host right first: nvidia-smi there has to answer."),
    ),
    "cgroup": (
        "the runtime could not open the devices' cgroup",
        by_hand(
            "Update nvidia-container-toolkit; for rootless engines set no-cgroups = true in"
            " /etc/nvidia-container-runtime/config.toml, or use CDI."
        ),
    ),
    "permissions": (
        "no permission on the driver's devices",
        by_hand("Look at ls -l /dev/nvidia*: they should be crw-rw-rw-; nvidia-modprobe -u -c 0 makes them anew."),
    ),
    "hook": (
        "the old hook was called while CDI is set",
        by_hand("Use --runtime=nvidia or --device nvidia.com/gpu=all in place of --gpus, or update the toolkit."),
    ),
}
"""Kind of complaint -> what was seen, and what to do."""


@check(
    "container.gpu-access",
    consequence_of=("container.toolkit", *DRIVER_ANSWERS, "driver.cuda-match"),
)
def gpu_access(
    programs: ContainerPrograms | None,
    units: ContainerUnits | None,
    info: DockerInfo | None,
    files: ContainerFiles | None,
    errors: ContainerErrors | None,
    answer: DriverAnswer | None,
    versions: DriverVersions | None,
) -> Iterator[Judgement]:
    """Containers get the GPUs, and keep them.

    Where systemd manages the containers' cgroups, a daemon-reload (any package update does one) writes the
    device rules anew, without the GPUs: programs that run go on, and whatever starts next in that container
    is told of an unknown error.
    """
    complaint = errors.of(*_BY_KIND) if errors else None
    lost = _lost(errors, answer, _engine(programs, info, None)) if errors else ""
    unknown = errors.of("nvml unknown") if errors else None
    refresh = units.states.get("nvidia-cdi-refresh") if units else None
    if lost:
        observed = "lost the GPUs" + (", which the host still has" if answer and answer.state == "ok" else "")
        yield Judgement(CONTAINER, Verdict.FAIL, observed, "access", evidence=lost, remedy=_RESTART_CONTAINERS)
    elif complaint:
        observed, remedy = _BY_KIND[complaint.kind]
        yield Judgement(CONTAINER, Verdict.FAIL, observed, "access", evidence=complaint.line, remedy=remedy)
    elif unknown:
        observed = "NVML's unknown error: a container that lost the GPUs, or a GPU that the host lost"
        yield Judgement(CONTAINER, Verdict.WARN, observed, "access", evidence=unknown.line, remedy=_WHERE_LOST)
    elif not _engine(programs, info, errors):
        yield skip(HOST, _NONE)
    elif refresh == "failed":
        remedy = by_hand(
            "sudo systemctl reset-failed nvidia-cdi-refresh && sudo systemctl restart nvidia-cdi-refresh"
        )
        yield Judgement(HOST, Verdict.WARN, "nvidia-cdi-refresh failed", "active", remedy=remedy)
    elif programs and not programs.toolkit and not (info and info.hands_out_gpus):
        yield skip(HOST, "no toolkit: no container has a GPU")
    else:
        yield from _setup(info, files, errors, versions)


def _lost(errors: ContainerErrors, answer: DriverAnswer | None, engine_seen: str) -> str:
    """Return the line of a container that was shut out; NVML's unknown error alone may be the host's own."""
    unknown = errors.of("nvml unknown")
    if errors.shut_out:
        return f"{unknown.line}; device rules: {errors.shut_out}" if unknown else errors.shut_out
    of_container = engine_seen or (answer and answer.state == "ok")
    return unknown.line if unknown and of_container else ""


def _setup(
    info: DockerInfo | None,
    files: ContainerFiles | None,
    errors: ContainerErrors | None,
    versions: DriverVersions | None,
) -> Iterator[Judgement]:
    module = versions.module if versions else None
    stale = (
        files.cdi_driver if files and files.cdi_driver and module and not agree(files.cdi_driver, module) else ""
    )
    if stale and files:
        observed, path = f"the CDI specification is of driver {stale}", files.cdi_path or ""
        remedy = by_hand(f"Write it anew: {_GENERATE}.")
        yield Judgement(HOST, Verdict.WARN, observed, f"{module}, the loaded one", evidence=path, remedy=remedy)
    elif info and info.cgroup_driver == "systemd" and "nvidia" in info.runtimes and not info.cdi_devices:
        yield Judgement(
            HOST,
            Verdict.NOTE,
            "a systemctl daemon-reload may take the GPUs from running containers",
            remedy=_RESTART_CONTAINERS,
        )
    elif errors and errors.of("engine down"):
        yield skip(HOST, "the engine does not answer")
    elif errors and not errors.errors:
        yield Judgement(HOST, Verdict.PASS, "no container complained in the last hour")
