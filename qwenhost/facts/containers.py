"""Container engines on the host, and how they are set up to hand GPUs to containers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import filled, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, recorded, tree
from qwenhost.records.versions import PATTERN

_ENGINES = ("dockerd", "docker", "podman", "containerd", "nerdctl", "crio")
_TOOLKIT = ("nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook")
_FOLDERS = ("/usr/bin", "/usr/local/bin", "/snap/bin")
ANCHOR = "/proc/filesystems"

PROGRAMS = command(
    "container-programs",
    *("ls", "-d", ANCHOR, *(f"{folder}/{name}" for folder in _FOLDERS for name in (*_ENGINES, *_TOOLKIT))),
    good_exits=(0, 2),
    looks_like=rf"^{ANCHOR}\s*$|^/(?:usr|snap)/\S*/(?:{'|'.join((*_ENGINES, *_TOOLKIT))})\s*$",
)
"""Exit code 2: some are not there, as everywhere. ANCHOR is on every host."""

UNITS = command(
    "container-units",
    *("systemctl", "show", "docker.service", "containerd.service", "crio.service", "nvidia-cdi-refresh.service"),
    *("-p", "Id,LoadState,ActiveState,Result"),
    looks_like=r"^Id=(?:docker|containerd|crio|nvidia-cdi-refresh)\.service",
)
INFO = command("docker-info", "docker", "info", looks_like=r"^\s*(?:Server Version|Default Runtime): ")

FILES = replace(
    tree(
        "container-files",
        "/etc/docker/daemon.json",
        "/etc/cdi/*nvidia*",
        "/var/run/cdi/*nvidia*",
        "/usr/share/containers/oci/hooks.d/*nvidia*",
        "/etc/containers/oci/hooks.d/*nvidia*",
        ANCHOR,
    ),
    looks_like=rf'\A\s*\{{\s*"(?:/etc/docker/daemon\.json|/etc/cdi/|/var/run/cdi/|/etc/containers/oci|{ANCHOR})',
)
DAEMON = recorded("docker-daemon-json", r'\A\s*\{[^{]*"(?:runtimes|exec-opts|default-runtime|features)"\s*:')
CDI = recorded("cdi-spec", r"^[^\w\n]*cdiVersion\W{1,9}\d|^kind: nvidia\.com/gpu")


@dataclass(frozen=True)
class ContainerPrograms:
    """Names of the engines that are installed, and the first program of NVIDIA's toolkit; empty for none."""

    engines: tuple[str, ...]
    toolkit: str


@dataclass(frozen=True)
class ContainerUnits:
    """Unit, such as docker -> active, inactive or failed; those that are not loaded are left out."""

    states: Mapping[str, str]


@dataclass(frozen=True)
class DockerInfo:
    """What the daemon says of itself."""

    version: str
    runtimes: tuple[str, ...]
    cgroup_driver: str
    cdi_devices: tuple[str, ...]

    @property
    def hands_out_gpus(self) -> bool:
        """Whether NVIDIA's runtime or its CDI devices are known to it."""
        return "nvidia" in self.runtimes or bool(self.cdi_devices)


@dataclass(frozen=True)
class ContainerFiles:
    """Configuration; None: not seen or not set. `cdi_driver`: version of the libraries that the CDI spec names."""

    broken_json: str | None = None
    cgroup_driver: str | None = None
    nvidia_runtime: bool | None = None
    cdi_driver: str | None = None
    cdi_path: str | None = None
    legacy_hook: str | None = None

    def merge(self, other: ContainerFiles) -> ContainerFiles:
        """Fill what this view lacks."""
        return filled(self, other)


@parses(PROGRAMS)
def programs(capture: Capture) -> ContainerPrograms:
    """Parse the listing; raises Unparsable for one that lacks even the path that is always there."""
    if not PROGRAMS.recognises(capture.text):
        raise Unparsable("the listing is empty")
    names = dict.fromkeys(line.strip().rpartition("/")[2] for line in capture.text.splitlines())
    toolkit = next((name for name in names if name in _TOOLKIT), "")
    return ContainerPrograms(tuple(name for name in names if name in _ENGINES), toolkit)


@parses(UNITS)
def unit_states(capture: Capture) -> ContainerUnits:
    """Parse `systemctl show`."""
    blocks = [dict(re.findall(r"^(\w+)=(.*)$", block, re.MULTILINE)) for block in capture.text.split("\n\n")]
    named = [block for block in blocks if "Id" in block and "ActiveState" in block]
    if not named:
        raise Unparsable("no unit in it")
    loaded = [block for block in named if block.get("LoadState") != "not-found"]
    return ContainerUnits({block["Id"].removesuffix(".service"): block["ActiveState"] for block in loaded})


@parses(INFO)
def docker_info(capture: Capture) -> DockerInfo:
    """Parse `docker info`."""
    text = plain(capture.text)
    fields = dict(re.findall(r"^ *(Server Version|Runtimes|Cgroup Driver): *(.*)$", text, re.MULTILINE))
    if "Server Version" not in fields:
        raise Unparsable("the daemon is not in it")
    devices = re.findall(r"^ *cdi: (nvidia\.com/\S+)", text, re.MULTILINE)
    return DockerInfo(
        fields["Server Version"].strip(),
        tuple(fields.get("Runtimes", "").split()),
        fields.get("Cgroup Driver", "").strip(),
        tuple(devices),
    )


@parses(FILES)
def configuration(capture: Capture) -> ContainerFiles:
    """Parse the files below their paths."""
    files: Mapping[str, str] = json.loads(capture.text)
    if not any(path == ANCHOR or path.startswith("/etc/") for path in files):
        raise Unparsable("the listing is empty")
    hooks = [path for path in files if "/hooks.d/" in path]
    found = ContainerFiles(legacy_hook=hooks[0] if hooks else None)
    if "/etc/docker/daemon.json" in files:
        found = found.merge(_daemon(files["/etc/docker/daemon.json"]))
    for path, text in files.items():
        found = found.merge(_spec(path, text)) if "/cdi/" in path else found
    return found


@parses(DAEMON)
def daemon_json(capture: Capture) -> ContainerFiles:
    """Parse a daemon.json that somebody sent."""
    return _daemon(capture.text)


@parses(CDI)
def cdi_spec(capture: Capture) -> ContainerFiles:
    """Parse a CDI specification that somebody sent, YAML or JSON."""
    return _spec(capture.origin or capture.source, capture.text)


def _daemon(text: str) -> ContainerFiles:
    try:
        options = json.loads(text) if text.strip() else {}
    except ValueError as error:
        return ContainerFiles(broken_json=str(error))
    cgroup = re.search(r"native\.cgroupdriver=(\w+)", " ".join(options.get("exec-opts", ())))
    return ContainerFiles(
        cgroup_driver=cgroup[1] if cgroup else None, nvidia_runtime="nvidia" in options.get("runtimes", {})
    )


def _spec(path: str, text: str) -> ContainerFiles:
    library = re.search(rf"lib(?:cuda|nvidia-ml)\.so\.({PATTERN})", text)
    return ContainerFiles(cdi_driver=library[1], cdi_path=path) if library else ContainerFiles()
