"""What the kernel log says about GPUs, NVSwitches, the driver module and the PCIe bus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import takewhile

from qwenhost.facts.kernel_lines import KERNEL_LOG, KernelLog, Message, kernel_log
from qwenhost.facts.reading import bus_id
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.literals import needed


@dataclass(frozen=True)
class KernelEvent:
    """One event. `kind` is a key of the table below, `number` its Xid, SXid or version where it has one.

    `cleared`: a later line of the same log shows a reset of that GPU, a reload of the module or a new
    boot. `at`: its stamp as printed. `seconds` are comparable within one `clock`.
    """

    kind: str
    bus_id: str
    number: int
    text: str
    cleared: bool = False
    at: str = ""
    clock: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class KernelEvents:
    """The events of all kernel logs of a bundle, in order.

    `restarts`: last boot or module load by clock. `cut`: a part of the log is missing.
    """

    events: tuple[KernelEvent, ...]
    restarts: tuple[tuple[str, float], ...] = ()
    cut: bool = False

    def merge(self, other: KernelEvents) -> KernelEvents:
        """Join two logs: lines that both hold count once, and a later boot in one settles the other's."""
        spare = Counter(map(_told, self.events))
        fresh = []
        for event in other.events:
            spare[_told(event)] -= 1
            if spare[_told(event)] < 0:
                fresh.append(event)
        restarts = {
            clock: max(seconds for name, seconds in (*self.restarts, *other.restarts) if name == clock)
            for clock, _ in (*self.restarts, *other.restarts)
        }
        events = (
            replace(event, cleared=event.cleared or event.seconds < restarts.get(event.clock, 0))
            for event in (*self.events, *fresh)
        )
        return KernelEvents(tuple(events), tuple(restarts.items()), self.cut and other.cut)

    def of(self, *kinds: str) -> tuple[KernelEvent, ...]:
        """Return the events of these kinds that still stand."""
        return tuple(event for event in self.events if event.kind in kinds and not event.cleared)

    def xids(self, *numbers: int) -> tuple[KernelEvent, ...]:
        """Return the standing Xids, all or those with these numbers."""
        return tuple(event for event in self.of("xid") if not numbers or event.number in numbers)


def _told(event: KernelEvent) -> tuple[str, str, int, str]:
    """What two logs of one host print alike; stamps differ."""
    return event.kind, event.bus_id, event.number, event.text


# A gap has a bound, so that a line of the same words over and over takes no more time than any other.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("xid", re.compile(r"\bXid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<number>\d+)")),
    (
        "aer",
        re.compile(
            r"AER: .{0,100}error.{0,100} received|PCIe Bus Error: severity="
            # the firmware saw it
            r"|severity: \w+ .{0,400}section_type: PCIe error.{0,400}device_id: (?P<bus>\S+)",
            re.IGNORECASE,
        ),
    ),
    ("sxid", re.compile(r"nvidia-nvswitch\d*.{0,100}SXid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<number>\d+)")),
    ("named", re.compile(r"NVRM: GPU at PCI:(?P<bus>[0-9a-fA-F:.]+): GPU-[0-9a-f-]+")),
    ("off-bus", re.compile(r"fallen off the bus", re.IGNORECASE)),
    ("lost", re.compile(r"NVRM: .{0,300}GPU is lost", re.IGNORECASE)),
    ("init-failed", re.compile(r"NVRM: .{0,300}(?:rm_init_adapter|RmInitAdapter) failed", re.IGNORECASE)),
    ("probe-failed", re.compile(r"nvidia: probe of (?P<bus>\S+) failed|probe with driver nvidia failed")),
    ("api-mismatch", re.compile(r"NVRM: API mismatch")),
    ("bar-invalid", re.compile(r"NVRM: .{0,300}PCI I/O region assigned to your NVIDIA device is invalid")),
    ("unsupported", re.compile(r"NVRM: .{0,300}not supported by (?:the|open) .{0,100}nvidia", re.IGNORECASE)),
    ("other-driver", re.compile(r"obtained ownership of the NVIDIA device")),
    ("module-loaded", re.compile(r"NVRM: loading NVIDIA UNIX .{0,100}Kernel Module")),
    (
        "key-rejected",
        re.compile(
            r"Loading of (?:unsigned )?module (?:with unavailable key )?is rejected"
            r"|Key was rejected by service|Lockdown: .{0,100}unsigned module loading"
        ),
    ),
    ("secure-boot", re.compile(r"secure ?boot enabled", re.IGNORECASE)),
    (
        "gsp-timeout",
        re.compile(r"NVRM: _kgspLogXid1(?:19|20)|GSP .{0,300}(?:timed out|crash)", re.IGNORECASE),
    ),
)
"""In the order in which they are tried: first those that a log may have by the ten thousand."""

_HOST_WIDE = frozenset({"module-loaded", "other-driver", "secure-boot", "key-rejected", "api-mismatch"})

_EVIDENCE_LENGTH = 300

_RELOADED = "nvidia-nvlink: Nvlink Core is being initialized"
"""The module was loaded again: what was said before it no longer holds. So it is with a new boot."""

_RESET = re.compile(
    r"(?:nvidia|vfio-pci|pci) (?P<bus>[0-9a-f:.]+): (?:reset done|resetting)"
    r"|(?P<bus2>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?).{0,300}\breset (?:done|complete|succe)"
    r"|Xid \(PCI:(?P<bus3>[0-9a-f:.]+)\): 154,.* to 0x0 \(None\)",
    re.IGNORECASE,
)


_RECORD = "[Hardware Error]: event severity:"
_OPENS = ("NVRM: The NVIDIA GPU", "NVRM: API mismatch", "NVRM: This PCI I/O region", _RECORD)
"""A notice over several lines."""

_GOES_ON = re.compile(
    r"NVRM: (?!Xid|loading NVIDIA|The NVIDIA GPU|API mismatch|This PCI I/O)|(?:\{\d+\})?\[Hardware Error\]:  "
)
_NOTICE_LINES = 12


@parses(KERNEL_LOG)
@lru_cache(maxsize=4)
def kernel_events(capture: Capture) -> KernelEvents:
    """Parse a kernel log in any of its stamps; raises Unparsable when no line looks like one."""
    log = kernel_log(capture)
    messages = tuple(_whole_notices(log, log.messages(_words())))
    restarts = {m.clock: m.seconds for m in messages if m.clock in ("utc", "local") and _restarts(m)}
    return KernelEvents(_events(messages), tuple(restarts.items()), log.cut)


@cache
def _words() -> tuple[str, ...]:
    """Return what a line must hold to matter here."""
    words = {
        *map(str.lower, (*_OPENS, _RELOADED)),
        *_reset_words(),
        *(word for row, _, _ in _kinds() for word in row),
    }
    return tuple(sorted(word for word in words if not any(other in word for other in words - {word})))


@cache
def _kinds() -> tuple[tuple[tuple[str, ...], str, re.Pattern[str]], ...]:
    return tuple((_needed(pattern), kind, pattern) for kind, pattern in _KINDS)


@cache
def _reset_words() -> tuple[str, ...]:
    return _needed(_RESET)


def _needed(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return text, in lower case, of which each match of the pattern holds some."""
    return tuple(word.lower() for word in needed(pattern.pattern))


def _restarts(message: Message) -> bool:
    return message.text.startswith("Linux version ") or _RELOADED in message.text


def _whole_notices(log: KernelLog, messages: Iterable[Message]) -> Iterator[Message]:
    """Join the driver's notices that span lines, stamped or not: the first names the device or versions."""
    told = 0
    for message in messages:
        if message.ended <= told:
            continue
        if any(words in message.text for words in _OPENS):
            rest = list(takewhile(_goes_on, log.after(message, _NOTICE_LINES)))
            notice = (_GOES_ON.sub("", line.text.strip(), count=1).strip() for line in rest)
            told = rest[-1].ended if rest else told
            message = replace(message, text=" ".join((message.text.rstrip(), *notice)))
        yield message


def _goes_on(message: Message) -> bool:
    return _GOES_ON.match(message.text.strip()) is not None


def _events(messages: Sequence[Message]) -> tuple[KernelEvent, ...]:
    """Walk back from the end, so that each event is told at once what came after it."""
    events: list[KernelEvent] = []
    reset: set[str] = set()
    reloaded = False
    for message in reversed(messages):
        low = message.text.lower()
        found = _RESET.search(message.text) if any(word in low for word in _reset_words()) else None
        if found:
            reset.add(bus_id(next(group for group in found.groups() if group)))
        else:
            events.extend(_recognised(message, low, reloaded, reset))
        reloaded = reloaded or _RELOADED in message.text
    return tuple(reversed(events))


def _recognised(message: Message, low: str, reloaded: bool, reset: Container[str]) -> Iterator[KernelEvent]:
    for words, kind, pattern in _kinds():
        if any(word in low for word in words) and (found := pattern.search(message.text)):
            named = found.groupdict()
            where = "" if kind in _HOST_WIDE else bus_id(named.get("bus") or message.text)
            yield KernelEvent(
                kind,
                where,
                int(named.get("number") or 0),
                message.text.strip()[:_EVIDENCE_LENGTH],
                cleared=message.earlier_boot or reloaded or where in reset,
                at=message.at,
                clock=message.clock,
                seconds=message.seconds,
            )
            return
