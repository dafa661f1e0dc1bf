"""Errors of the NVSwitches (SXids): from the kernel log, else from the fabric manager's own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.fabric import LOG, SETTLED
from qwenhost.facts.kernel_lines import KERNEL_LOG
from qwenhost.facts.kernel_log import kernel_events
from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_DETAIL = re.compile(r"\): \d+, (?:Severity|Data)\b")
"""Lines behind an error's first one: registers, for the maker."""

_SAID = re.compile(
    r"^(?:\[(?P<at>[^\]]+)\])?.*detected NVSwitch (?P<grade>(?:non-)?fatal) error (?P<number>\d+).*?"
    r"bus id (?P<bus>[0-9A-Fa-f:.]+).*?(?:port (?P<port>\d+))?$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class SwitchError:
    """One error of one switch. `link`: number as printed, empty where the line names none."""

    bus_id: str
    number: int
    link: str
    text: str
    at: str = ""


@dataclass(frozen=True)
class SwitchErrors:
    """All errors that still stand, in order."""

    errors: tuple[SwitchError, ...]
    cut: bool = False

    def merge(self, other: SwitchErrors) -> SwitchErrors:
        """Add the errors that only the other log has: both tell of the same ones."""
        known = {(error.bus_id, error.number) for error in self.errors}
        more = (error for error in other.errors if (error.bus_id, error.number) not in known)
        return SwitchErrors((*self.errors, *more), self.cut and other.cut)


@parses(KERNEL_LOG)
def switch_errors(capture: Capture) -> SwitchErrors:
    """Take them from the kernel log; raises Unparsable for other logs."""
    log = kernel_events(capture)
    events = (event for event in log.of("sxid") if not _DETAIL.search(event.text))
    return SwitchErrors(
        tuple(SwitchError(e.bus_id, e.number, _link(e.text), e.text, e.at) for e in events), log.cut
    )


@parses(LOG, trust=1)
def switch_errors_of_manager(capture: Capture) -> SwitchErrors:
    """Take them from the fabric manager's log; raises Unparsable where it has none, for it tells not all."""
    found = tuple(
        SwitchError(
            bus_id(line["bus"]), int(line["number"]), line["port"] or "", line[0].strip(), line["at"] or ""
        )
        for line in _SAID.finditer(plain(capture.text).rpartition(SETTLED)[2])
    )
    if not found:
        raise Unparsable("no error of a switch in it")
    return SwitchErrors(found, cut=True)


def _link(text: str) -> str:
    found = re.search(r"\bLink (\d+)", text, re.IGNORECASE)
    return str(int(found[1])) if found else ""
