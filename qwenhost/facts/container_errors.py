"""What engines, runtimes and programs in containers said when they were not given the GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.containers import INFO
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source, recorded

_ERRORS: tuple[tuple[str, str], ...] = (
    ("engine down", r"Cannot connect to the Docker daemon|failed to connect to the docker API"),
    (
        "no toolkit",
        r"could not select device driver\b|failed to discover GPU vendor from CDI"
        r"|unknown or invalid runtime name: nvidia|Unknown runtime specified nvidia"
        r"|no runtime for \W?nvidia\W? is configured"
        r"|nvidia-container-(?:runtime|toolkit|cli)\S* *(?:executable file not found|no such file or directory)",
    ),
    (
        "driver does not fit",
        r"requirement error: unsatisfied condition|unsatisfied condition: (?:cuda|driver|brand|arch)",
    ),
    (
        "driver",
        r"nvidia-container-(?:cli|runtime)[^\n]{0,200}(?:driver/library version mismatch|driver not loaded"
        r"|driver error|load library failed|no cuda-capable device|nvml error: (?!insufficient))"
        r"|failed to initialize NVML: ERROR_(?:LIB_RM_VERSION_MISMATCH|DRIVER_NOT_LOADED|LIBRARY_NOT_FOUND)",
    ),
    (
        "no device files",
        r"unresolvable CDI devices|failed to stat CDI host device"
        r"|\b(?:mounting|stat|CDI)\b[^\n]{0,300}(?:libcuda|libnvidia-\w+|/dev/nvidia)"
        r"[^\n]{0,300}[Nn]o such file",
    ),
    (
        "cgroup",
        r"failed to add device rules|bpf_prog_query\(BPF_CGROUP_DEVICE\)|cgroup subsystem devices not found",
    ),
    ("permissions", r"nvml error: insufficient permissions|Failed to initialize NVML: Insufficient Permissions"),
    ("hook", r"invoking the NVIDIA Container Runtime Hook directly"),
    ("nvml unknown", r"Failed to initialize NVML: Unknown Error"),
)

_RECENT = "--since=-1h"
"""Engines repeat what still fails; what was put right should not be told until the next boot."""

ERRORS = Source(
    "container-errors",
    "command",
    argv=(
        *("journalctl", "--no-pager", "--boot", _RECENT, "--output", "cat", "--lines", "2000"),
        *("--unit", "docker*", "--unit", "containerd*", "--unit", "nvidia-cdi-refresh*"),
    ),
    good_exits=(0, 1),
    looks_like="|".join(pattern for _, pattern in _ERRORS),
)
DEVICES = recorded("cgroup-devices", r"^c 195:(?:\*|\d+) [rwm]+\s*$")
"""A container's /sys/fs/cgroup/devices/devices.list; 195 is the major number of the driver's devices."""


@dataclass(frozen=True)
class ContainerError:
    """One kind of error, with the line that it was read from."""

    kind: str
    line: str


@dataclass(frozen=True)
class ContainerErrors:
    """Errors by kind, once each. `shut_out`: a container's device rule that gives no access to the driver."""

    errors: tuple[ContainerError, ...] = ()
    shut_out: str = ""

    def merge(self, other: ContainerErrors) -> ContainerErrors:
        """Join what two programs said."""
        return ContainerErrors((*self.errors, *other.errors), self.shut_out or other.shut_out)

    @property
    def of_container(self) -> bool:
        """Whether a container was surely concerned; NVML's unknown error may be the host's own."""
        return bool(self.shut_out) or any(error.kind != "nvml unknown" for error in self.errors)

    def of(self, *kinds: str) -> ContainerError | None:
        """Return the first error of these kinds."""
        return next((error for error in self.errors if error.kind in kinds), None)


@parses(ERRORS)
def errors_from_output(capture: Capture) -> ContainerErrors:
    """Find the errors; output without any is an answer, too."""
    return _errors(plain(capture.text))


def _errors(text: str) -> ContainerErrors:
    found = ((kind, re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE)) for kind, pattern in _ERRORS)
    return ContainerErrors(tuple(ContainerError(kind, line[0].strip()[:300]) for kind, line in found if line))


@parses(INFO, accepts=("failed",))
def engine_down(capture: Capture) -> ContainerErrors:
    """Find in the failure of `docker info` that its daemon is not there."""
    found = _errors(f"{capture.text}\n{capture.error}").of("engine down")
    if not found:
        raise Unparsable(capture.error)
    return ContainerErrors((found,))


@parses(DEVICES)
def device_rules(capture: Capture) -> ContainerErrors:
    """Parse a container's device rules: `m` alone lets it make device files, and not open them."""
    rules = re.findall(r"^c 195:(?:\*|\d+) [rwm]+", capture.text, re.MULTILINE)
    if not rules:
        raise Unparsable("no rule for the driver's devices in it")
    open_ones = [rule for rule in rules if re.search(r" \w*r\w*$", rule)]
    return ContainerErrors(shut_out="" if open_ones else rules[0])
