"""What the kernel log says about GPUs, NVSwitches, the driver module and the PCIe bus."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.literals import needed
from qwenhost.records.source import command

_STAMP = (
    r"(?:\[\s*\+?\d+\.\d+\](?! \[\S+:\d)"  # dmesg, dmesg -d; not the log of UCX
    r"|\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\]"  # dmesg -T
    r"|\d+,\d+,\d+,[^;\s]*;"  # /dev/kmsg
    r"|<\d+>\s*\[\s*\d+\.\d+\]"  # pstore
    r"|(?:kern|user)\s*:\w+\s*: ?\["  # dmesg -x
    r"|\S+: (?:kern|user): +\w+: \["  # a cluster manager's log command
    r"|\d{4}-\d\d-\d\dT[\d:]+[.,]\d+[+-][\d:]+ (?:\S+ kernel: )?"  # dmesg --time-format iso, journal
    r"|[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ kernel:)"  # syslog, journal
)

KERNEL_LOG = command("dmesg", "dmesg", looks_like=rf"^\s*{_STAMP}|^\s*NVRM: ")
"""Shared by all facts that come from the kernel log."""

_LEADING = re.compile(rf"^\s*(?:\S+ : *)?{_STAMP}(?:[^\]]*\]:?)?\s*(?:\[\s*\d+\.\d+\]\s*)?", re.MULTILINE)


@dataclass(frozen=True)
class KernelEvent:
    """One event. `kind` is a key of the table below, `number` its Xid, SXid or version where it has one.

    `cleared`: a later line of the same log shows a reset of that GPU, a reload of the module or a new
    boot.
    """

    kind: str
    bus_id: str
    number: int
    text: str
    cleared: bool = False


@dataclass(frozen=True)
class KernelEvents:
    """The events of all kernel logs of a bundle, in order."""

    events: tuple[KernelEvent, ...]

    def merge(self, other: KernelEvents) -> KernelEvents:
        """Join the logs of two captures; each has settled its own clearings."""
        return KernelEvents((*self.events, *other.events))

    def of(self, *kinds: str) -> tuple[KernelEvent, ...]:
        """Return the events of these kinds that still stand."""
        return tuple(event for event in self.events if event.kind in kinds and not event.cleared)

    def xids(self, *numbers: int) -> tuple[KernelEvent, ...]:
        """Return the standing Xids, all or those with these numbers."""
        return tuple(event for event in self.of("xid") if not numbers or event.number in numbers)


_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("xid", re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<number>\d+)")),
    ("sxid", re.compile(r"nvidia-nvswitch\d*.*SXid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<number>\d+)")),
    ("off-bus", re.compile(r"fallen off the bus", re.IGNORECASE)),
    ("lost", re.compile(r"NVRM: .*GPU is lost", re.IGNORECASE)),
    ("init-failed", re.compile(r"NVRM: .*(?:rm_init_adapter|RmInitAdapter) failed", re.IGNORECASE)),
    ("probe-failed", re.compile(r"nvidia: probe of (?P<bus>\S+) failed|probe with driver nvidia failed")),
    ("api-mismatch", re.compile(r"NVRM: API mismatch")),
    ("bar-invalid", re.compile(r"NVRM: .*PCI I/O region assigned to your NVIDIA device is invalid")),
    ("unsupported", re.compile(r"NVRM: .*not supported by (?:the|open) .*nvidia", re.IGNORECASE)),
    ("other-driver", re.compile(r"obtained ownership of the NVIDIA device")),
    ("module-loaded", re.compile(r"NVRM: loading NVIDIA UNIX .*Kernel Module")),
    (
        "key-rejected",
        re.compile(
            r"Loading of (?:unsigned )?module (?:with unavailable key )?is rejected"
            r"|Key was rejected by service|Lockdown: .*unsigned module loading"
        ),
    ),
    ("secure-boot", re.compile(r"secure ?boot enabled", re.IGNORECASE)),
    (
        "gsp-timeout",
        re.compile(r"NVRM: _kgspLogXid1(?:19|20)|NVRM: .*GSP .*(?:timed out|crash)", re.IGNORECASE),
    ),
    ("aer", re.compile(r"AER: .*error.* received|PCIe Bus Error: severity=", re.IGNORECASE)),
)

_HOST_WIDE = frozenset({"module-loaded", "other-driver", "secure-boot", "key-rejected", "api-mismatch"})

_EVIDENCE_LENGTH = 300

_RESTART = re.compile(r"^Linux version \d|nvidia-nvlink: Nvlink Core is being initialized")
"""A new boot, or the module loaded again: what was said before it no longer holds."""

_RESET = re.compile(
    r"(?:nvidia|vfio-pci|pci) (?P<bus>[0-9a-f:.]+): (?:reset done|resetting)"
    r"|NVRM: .*(?P<bus2>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?).*\breset (?:done|completed?|succe)"
    r"|Xid \(PCI:(?P<bus3>[0-9a-f:.]+)\): 154,.* to 0x0 \(None\)",
    re.IGNORECASE,
)


@parses(KERNEL_LOG)
@lru_cache(maxsize=4)
def kernel_events(capture: Capture) -> KernelEvents:
    """Parse a kernel log in any of its stamps; raises Unparsable when no line looks like one."""
    text = plain(capture.text)
    if not KERNEL_LOG.recognises(text):
        raise Unparsable("no kernel log line in it")
    return KernelEvents(_events(messages(text)))


@lru_cache(maxsize=4)
def messages(text: str) -> tuple[str, ...]:
    """Return the messages of a log without stamps; lines that continue a message are joined to it."""
    joined: list[str] = []
    for line in text.splitlines():
        bare, stamped = _LEADING.subn("", line, count=1)
        if joined and not stamped and re.match(r"\s+NVRM: ", line):
            joined[-1] = f"{joined[-1].rstrip()} {re.sub(r'^NVRM: *', '', line.strip())}"
        else:
            joined.append(bare.rstrip())
    return tuple(_with_device_lines(joined))


def _with_device_lines(lines: list[str]) -> list[str]:
    """Join the driver's notices that span several stamped lines: the first names the device or the
    versions.
    """
    joined: list[str] = []
    for line in lines:
        opens = (
            joined
            and "NVRM: " in joined[-1]
            and re.search(r"NVRM: (?:The NVIDIA GPU|API mismatch|This PCI I/O region)", joined[-1])
        )
        if opens and line.startswith("NVRM: ") and not re.search(r"Xid|loading NVIDIA|API mismatch", line):
            joined[-1] = f"{joined[-1]} {line.removeprefix('NVRM: ').strip()}"
        else:
            joined.append(line)
    return joined


def _events(lines: Sequence[str]) -> tuple[KernelEvent, ...]:
    """Walk back from the end, so that each event is told at once what came after it."""
    events: list[KernelEvent] = []
    reset: set[str] = set()
    restarted = False
    for line in reversed(lines):
        if not _worth_reading(line):
            continue
        found = _RESET.search(line)
        if found:
            reset.add(bus_id(next(group for group in found.groups() if group)))
        else:
            events.extend(_recognised(line, restarted, reset))
        restarted = restarted or _RESTART.search(line) is not None
    return tuple(reversed(events))


def _worth_reading(line: str) -> bool:
    """Tell in a tenth of the time whether any pattern of this module can match: most lines are of others."""
    low = line.lower()
    return any(word in low for word in _words())


@cache
def _words() -> tuple[str, ...]:
    patterns = (_RESTART, _RESET, *(pattern for _, pattern in _KINDS))
    return tuple(dict.fromkeys(word.lower() for pattern in patterns for word in needed(pattern.pattern) or ("",)))


def _recognised(line: str, restarted: bool, reset: Container[str]) -> Iterator[KernelEvent]:
    for kind, pattern in _KINDS:
        found = pattern.search(line)
        if found:
            named = found.groupdict()
            where = "" if kind in _HOST_WIDE else bus_id(named.get("bus") or line)
            number = int(named.get("number") or 0)
            yield KernelEvent(kind, where, number, line.strip()[:_EVIDENCE_LENGTH], restarted or where in reset)
            return
