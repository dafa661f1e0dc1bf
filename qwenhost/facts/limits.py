"""Resource limits: what this project configured, and what shells and services were seen to have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qwenhost.facts.kernel_lines import KERNEL_LOG, kernel_log
from qwenhost.facts.keyed import listing
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.facts.vllm import UNITS, shown_units
from qwenhost.facts.vllm_lines import lines_of_last_starts
from qwenhost.facts.vllm_log import JOURNAL
from qwenhost.records.bundle import Capture, Status
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import file, recorded, tree

OWN = "/etc/security/limits.d/90-qwenhost.conf"
CONFIGURED = file("limits-qwenhost", OWN)
ANCHOR = "/proc/version"
LATER = tree("limits-files", ANCHOR, "/etc/security/limits.d/*.conf")
SHELL = recorded("ulimit", looks_like=r"^(?:open files|max locked memory)\b.*\(")

EXHAUSTED = recorded("open-files-log", looks_like=r"^.*(?:\[Errno 24\]|: Too many open files)")

UNPINNED = recorded(
    "locked-memory-log",
    looks_like=r"^.*(?:set max locked memory \(ulimit -l\)"
    r"|ibv_(?:reg_mr|create_cq|create_qp|alloc_pd)[^\n]{0,200}failed[^\n]{0,40}Cannot allocate memory)",
)
"""Said by UCX and NCCL when an HCA may not lock the memory that it shall reach."""

FULL = recorded("file-table-log", looks_like=r"^.*VFS: file-max limit \d+ reached")

READABLE: tuple[Status, ...] = ("ok", "missing")
"""A missing file was looked for and is not there: that is an answer here."""

LINE = re.compile(r"^(?P<who>\*|root)\s+(?P<kind>hard|soft|-)\s+(?P<item>\w+)\s+(?P<value>\S+)\s*$", re.MULTILINE)

ULIMIT = re.compile(r"^(?P<name>open files|max locked memory)\b[^)]*\)\s+(?P<value>\S+)\s*$", re.MULTILINE)
ITEM = {"open files": "nofile", "max locked memory": "memlock"}


@dataclass(frozen=True)
class ConfiguredLimits:
    """Item, such as memlock -> the lowest value that any line of ours gives it; empty without our file."""

    values: Mapping[str, str]


@dataclass(frozen=True)
class LaterLimits:
    """Item -> (value, "file:line") of lines for everybody or root that are read after our file, and so count."""

    values: Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class ShellLimits:
    """Item -> value, as `ulimit -a` printed it."""

    values: Mapping[str, str]


@parses(CONFIGURED, accepts=READABLE)
def configured(capture: Capture) -> ConfiguredLimits:
    """Parse the drop-in that the role host_tuning writes."""
    found: dict[str, str] = {}
    for match in LINE.finditer(capture.text):
        found[match["item"]] = min(found.get(match["item"], match["value"]), match["value"], key=_size)
    if capture.status == "ok" and not found:
        raise Unparsable("no limit in it")
    return ConfiguredLimits(found)


@parses(LATER)
def later(capture: Capture) -> LaterLimits:
    """Parse the files of limits.d that follow ours by name, as pam_limits(8) reads them."""
    files = listing(capture, ANCHOR)
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(path for path in files if path > OWN and path.endswith(".conf")):
        for number, line in enumerate(files[path].splitlines(), 1):
            if match := LINE.match(line):
                found.setdefault(match["item"], []).append((match["value"], f"{path}:{number}"))
    return LaterLimits({item: tuple(lines) for item, lines in found.items()})


def _size(value: str) -> float:
    return float(value) if value.isdigit() else float("inf")


@parses(SHELL)
def shell(capture: Capture) -> ShellLimits:
    """Parse `ulimit -a`."""
    found = {ITEM[match["name"]]: match["value"] for match in ULIMIT.finditer(capture.text)}
    if not found:
        raise Unparsable("no limit in it")
    return ShellLimits(found)


@dataclass(frozen=True)
class ServiceLimits:
    """Instance -> item, such as memlock -> value that systemd gives its vLLM service."""

    values: Mapping[str, Mapping[str, str]]


@parses(UNITS)
def services(capture: Capture) -> ServiceLimits:
    """Parse the limits of the loaded vLLM services; systemd says infinity for unlimited."""
    return ServiceLimits(
        {
            name: {
                item: fields[prop].replace("infinity", "unlimited")
                for item, prop in (("memlock", "LimitMEMLOCK"), ("nofile", "LimitNOFILE"))
                if prop in fields
            }
            for name, fields in shown_units(capture)
        }
    )


@dataclass(frozen=True)
class OpenFilesExhausted:
    """A program had no file descriptor left; `line` is how it said so."""

    line: str


@parses(EXHAUSTED)
def exhausted(capture: Capture) -> OpenFilesExhausted:
    """Parse a program's log."""
    found = re.search(EXHAUSTED.looks_like + ".*", capture.text, re.MULTILINE)
    if not found:
        raise Unparsable("no such error in it")
    return OpenFilesExhausted(found[0].strip())


@dataclass(frozen=True)
class LockedMemoryRefused:
    """A program could not lock memory; `line` is how it said so, `limit` the KiB that it had, where it tells."""

    line: str
    limit: str = ""


@parses(UNPINNED)
def refused(capture: Capture) -> LockedMemoryRefused:
    """Parse a program's log."""
    return _refused(plain(capture.text))


@parses(JOURNAL, trust=1)
def refused_to_service(capture: Capture) -> LockedMemoryRefused:
    """Parse the last start of each vLLM service."""
    return _refused(lines_of_last_starts(capture.text))


def _refused(text: str) -> LockedMemoryRefused:
    found = re.search(UNPINNED.looks_like + ".*", text, re.MULTILINE)
    if not found:
        raise Unparsable("no such error in it")
    limit = re.search(r"current: (\w+)", found[0])
    return LockedMemoryRefused(found[0].strip(), limit[1] if limit else "")


@dataclass(frozen=True)
class FileTable:
    """Limit of the kernel's file table when it was full, as the kernel log tells; None when it never was."""

    full_at: int | None
    line: str = ""

    def merge(self, other: FileTable) -> FileTable:
        """Prefer the log in which it was full."""
        return other if self.full_at is None else self


@parses(KERNEL_LOG)
def file_table(capture: Capture) -> FileTable:
    """Search a kernel log; raises Unparsable when no line looks like one, or what was read shows no absence."""
    log = kernel_log(capture)
    table = _fullness(message.text for message in log.messages(("vfs: file-max limit",)))
    if log.cut and table.full_at is None:
        raise Unparsable("the log is not whole")
    return table


@parses(FULL, trust=1)
def file_table_full(capture: Capture) -> FileTable:
    """Parse a piece of a kernel log, with whatever stamps."""
    table = _fullness(capture.text.splitlines())
    if table.full_at is None:
        raise Unparsable("no message about the file table in it")
    return table


def _fullness(lines: Iterable[str]) -> FileTable:
    for line in lines:
        found = re.search(r"VFS: file-max limit (\d+) reached", line)
        if found:
            return FileTable(int(found[1]), line.strip())
    return FileTable(None)
