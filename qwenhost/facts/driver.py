"""Whether the driver answers, and which versions of module and libraries are there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from qwenhost.facts.gpus import LISTING, NVML, QUERY, TABLE, XML
from qwenhost.facts.kernel_lines import KERNEL_LOG
from qwenhost.facts.kernel_log import kernel_events
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import ANY, filled, parses
from qwenhost.facts.vllm_lines import lines_of_last_starts
from qwenhost.facts.vllm_log import JOURNAL
from qwenhost.facts.vllm_log import LOG as VLLM_LOG
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command, file
from qwenhost.records.versions import PATTERN

PROC_VERSION = file("proc-driver-nvidia-version", "/proc/driver/nvidia/version", looks_like=r"^NVRM version: ")
SMI_VERSION = command("nvidia-smi-version", "nvidia-smi", "--version", looks_like=r"^NVIDIA-SMI version\s*:")

State = Literal["hangs", "mismatch", "not loaded", "ok", "gpu lost", "no gpu", "absent", "error"]

_ORDER: tuple[State, ...] = ("hangs", "mismatch", "not loaded", "ok", "gpu lost", "no gpu", "absent", "error")
"""Which state counts where several sources were asked: a hang or mismatch outweighs an answer."""


@dataclass(frozen=True)
class DriverAnswer:
    """What became of asking the driver, and the line that says so."""

    state: State
    evidence: str

    def merge(self, other: DriverAnswer) -> DriverAnswer:
        """Keep the state that counts."""
        return min(self, other, key=lambda answer: _ORDER.index(answer.state))


@dataclass(frozen=True)
class DriverVersions:
    """Versions by where they live. `cuda`: highest CUDA of the user-mode driver, such as "12.2".

    `client`: version of a library that the module refused. `cuda` None where it was not printed."""

    module: str | None = None
    library: str | None = None
    client: str | None = None
    cuda: str | None = None
    open_module: bool | None = None

    def merge(self, other: DriverVersions) -> DriverVersions:
        """Fill what this view lacks."""
        return filled(self, other)


_MESSAGES: tuple[tuple[State, str], ...] = (
    ("mismatch", r"driver/library version mismatch|LIB_RM_VERSION_MISMATCH"),
    ("not loaded", r"couldn't communicate with the NVIDIA driver|DRIVER_NOT_LOADED|Driver Not Loaded"),
    ("gpu lost", r"Unable to determine the device handle|GPU is lost|GPU_IS_LOST"),
    ("no gpu", r"No devices were found"),
    (
        "absent",
        r"LIBRARY_NOT_FOUND|NVML Shared Library Not Found|libnvidia-ml\.so\S* .*not found"
        r"|nvidia-smi: (?:command )?not found|command not found: nvidia-smi",
    ),
)


def _told(text: str) -> DriverAnswer | None:
    for state, pattern in _MESSAGES:
        found = re.search(rf"^.*(?:{pattern}).*$", text, re.IGNORECASE | re.MULTILINE)
        if found:
            return DriverAnswer(state, found[0].strip())
    return None


def _failure(capture: Capture) -> DriverAnswer:
    """Return what a capture without an answer tells; raises Unparsable when it tells nothing of the
    driver.
    """
    if capture.status == "timeout":
        return DriverAnswer("hangs", f"{capture.source}: no answer: {capture.error or 'timed out'}")
    told = _told(f"{capture.text}\n{capture.error}")
    if told:
        return told
    if capture.status == "missing":
        return DriverAnswer("absent", f"{capture.source}: {capture.error or 'not there'}")
    if capture.status == "failed" and capture.text.strip():
        return DriverAnswer("error", capture.text.strip().splitlines()[-1])
    raise Unparsable(capture.error or capture.status)


@parses(NVML, accepts=ANY)
def answer_of_nvml(capture: Capture) -> DriverAnswer:
    """Tell how NVML started."""
    if capture.status in ("timeout", "denied") or not capture.text:
        return _failure(capture)
    init = json.loads(capture.text)["init"]
    if init == "SUCCESS":
        return DriverAnswer("ok", "NVML: init SUCCESS")
    return _told(f"NVML: init {init}") or DriverAnswer("error", f"NVML: init {init}")


@parses(TABLE, trust=1, accepts=ANY)
def answer_of_table(capture: Capture) -> DriverAnswer:
    """Tell whether `nvidia-smi` printed its table or a message."""
    return _answer(capture, r"\| *NVIDIA-SMI \d")


@parses(QUERY, trust=1, accepts=ANY)
def answer_of_query(capture: Capture) -> DriverAnswer:
    """Tell whether `nvidia-smi -q` printed a log."""
    return _answer(capture, QUERY.looks_like)


@parses(XML, trust=1, accepts=ANY)
def answer_of_xml(capture: Capture) -> DriverAnswer:
    """Tell whether `nvidia-smi -q -x` printed a log."""
    return _answer(capture, XML.looks_like)


@parses(LISTING, trust=1, accepts=ANY)
def answer_of_listing(capture: Capture) -> DriverAnswer:
    """Tell whether `nvidia-smi -L` listed GPUs."""
    return _answer(capture, LISTING.looks_like)


def _answer(capture: Capture, healthy: str) -> DriverAnswer:
    if capture.status != "ok":
        return _failure(capture)
    text = plain(capture.text)
    answered = re.search(rf"^.*(?:{healthy}).*$", text, re.MULTILINE)
    if answered:
        return DriverAnswer("ok", answered[0].strip())
    told = _told(text)
    if told is None and "Failed to initialize NVML" not in text:
        raise Unparsable("form not understood")
    return told or DriverAnswer("error", text.strip().splitlines()[0])


@parses(VLLM_LOG, trust=3)
@parses(JOURNAL, trust=3)
def answer_of_service(capture: Capture) -> DriverAnswer:
    """Take what NVML told a vLLM service of the module and its libraries, at its last start."""
    line = re.search(
        r"^.*(?:NVMLError_LibRmVersionMismatch|Driver/library version mismatch).*$",
        lines_of_last_starts(capture.text),
        re.MULTILINE,
    )
    if not line:
        raise Unparsable("it tells nothing of the driver")
    return DriverAnswer("mismatch", line[0].strip())


@parses(PROC_VERSION)
def versions_from_proc(capture: Capture) -> DriverVersions:
    """Parse the loaded module's own line, of the closed and the open flavour."""
    line = re.search(rf"^NVRM version: (.*?)\s({PATTERN})\b", capture.text, re.MULTILINE)
    if not line:
        raise Unparsable("no NVRM version in it")
    return DriverVersions(module=line[2], open_module="Open" in line[1])


@parses(NVML, trust=1)
def versions_from_nvml(capture: Capture) -> DriverVersions:
    """Parse NVML's system values; raises Unparsable when NVML did not start."""
    answer = json.loads(capture.text)
    if answer.get("init") != "SUCCESS":
        raise Unparsable(f"NVML did not start: {answer.get('init')}")
    system = {name: None if isinstance(value, Mapping) else value for name, value in answer["system"].items()}
    cuda = system.get("cuda_driver_version")
    return DriverVersions(
        module=system.get("driver_version"),
        library=_driver_of(system.get("nvml_version")),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    )


def _driver_of(nvml_version: str | None) -> str | None:
    """Return the driver version inside an NVML version such as 12.580.95.05: its first part is the API's."""
    found = re.fullmatch(rf"\d+\.({PATTERN})", nvml_version or "")
    return found[1] if found else None


@parses(TABLE, trust=2, accepts=("ok", "failed"))
def versions_from_table(capture: Capture) -> DriverVersions:
    """Parse the table's head, or the library version that a mismatch message names."""
    text = plain(capture.text)
    library = re.search(rf"NVIDIA-SMI ({PATTERN})|NVML library version: ({PATTERN})", text)
    module = re.search(rf"(?:Driver|KMD) Version: ({PATTERN})", text)
    if not library and not module:
        raise Unparsable("no driver version in it")
    return DriverVersions(
        module=module[1] if module else None,
        library=(library[1] or library[2]) if library else None,
        cuda=_cuda(text),
    )


@parses(QUERY, trust=2)
def versions_from_query(capture: Capture) -> DriverVersions:
    """Parse the head of `nvidia-smi -q`."""
    return _from_head(plain(capture.text), rf"^(?:Driver|KMD) Version\s*: ({PATTERN})")


@parses(XML, trust=2)
def versions_from_xml(capture: Capture) -> DriverVersions:
    """Parse the head of `nvidia-smi -q -x`."""
    return _from_head(capture.text, rf"<(?:driver|kmd)_version>({PATTERN})")


def _from_head(text: str, pattern: str) -> DriverVersions:
    module = re.search(pattern, text, re.MULTILINE)
    if not module:
        raise Unparsable("no driver version in it")
    return DriverVersions(module=module[1], cuda=_cuda(text))


@parses(SMI_VERSION, trust=2)
def versions_from_smi(capture: Capture) -> DriverVersions:
    """Parse `nvidia-smi --version`, with the names used before and after branch 610."""
    text = plain(capture.text)
    library = re.search(rf"^(?:NVML|NVIDIA-SMI) version\s*: ({PATTERN})", text, re.MULTILINE)
    module = re.search(rf"^(?:DRIVER|KMD) version\s*: ({PATTERN})", text, re.MULTILINE | re.IGNORECASE)
    if not library and not module:
        raise Unparsable("no driver version in it")
    return DriverVersions(
        module=module[1] if module else None, library=library[1] if library else None, cuda=_cuda(text)
    )


def _cuda(text: str) -> str | None:
    found = re.search(r"(?:CUDA|CUDA UMD) Version\s*: *(\d+\.\d+)|<cuda_version>(\d+\.\d+)", text, re.IGNORECASE)
    return (found[1] or found[2]) if found else None


@parses(KERNEL_LOG, trust=3)
def versions_from_kernel_log(capture: Capture) -> DriverVersions:
    """Take the module that was loaded last, and the versions of a client that it refused."""
    events = kernel_events(capture)
    loaded = [version for event in events.of("module-loaded") if (version := _module(event.text))]
    refused = [versions for event in events.of("api-mismatch") if (versions := _mismatch(event.text))]
    if not loaded and not refused:
        raise Unparsable("the kernel log names no driver version")
    module = refused[-1][1] if refused else loaded[-1]
    return DriverVersions(module=module, client=refused[-1][0] if refused else None)


def _module(text: str) -> str | None:
    found = re.search(rf"Kernel Module.*?\s({PATTERN})\b", text)
    return found[1] if found else None


def _mismatch(text: str) -> tuple[str, str] | None:
    found = re.search(rf"client.*? version ({PATTERN}).*?module.*? version ({PATTERN})", text)
    return (found[1], found[2]) if found else None
