"""Errors that processors, memory and firmware reported: machine checks, EDAC, and firmware's own records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from qwenhost.facts.kernel_lines import KERNEL_LOG, KernelLog, Message, kernel_log
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture

_WORDS = (
    "machine check: ",
    "machine check event: ",
    "machine check exception: ",
    "machine check events logged",
    "[hardware error]: ",
    "edac ",
    "memory failure: 0x",
    "fatal machine check",
)

_BANK = re.compile(r"CPU (?P<cpu>\d+): Machine Check(?: Event)?: \w+ Bank (?P<bank>\d+): (?P<status>[0-9a-f]{16})")
_UNCORRECTED_BIT = 1 << 61
"""UC of IA32_MCi_STATUS (Intel SDM vol. 3B, 17.3.2.2; AMD APM vol. 2, 9.3.2.1)."""

_EDAC = re.compile(
    r"EDAC (?:\w+ )?MC\d+: (?P<count>\d+)? ?(?P<kind>CE|UE) (?:(?!page).*? on (?P<where>[^()]+?)(?: \(|$)|page .*)"
)
"""Up to Linux 3.x without a count: `CE page 0x..., row 1, channel 0, label "..."`."""

_FIRMWARE = re.compile(r"\[Hardware Error\]: +(?:event )?severity: (?P<severity>\w+)")
_SECTION = re.compile(r"section_type: (?P<section>.+)")
_RECORD_LINES = 12

_DECODED = re.compile(r"\[Hardware Error\]: (?P<kind>Corrected|Deferred|Uncorrected|Fatal)\b.*error")
_FATAL = re.compile(r"Machine Check Exception: |Fatal machine check|Memory failure: 0x\w+: (?!.*[Uu]npoison)")
_NOTICE = re.compile(r"Machine check events logged")


@dataclass(frozen=True)
class HardwareError:
    """One report. `reporter` tells apart who printed it: two reporters may tell of the same error."""

    reporter: str
    corrected: bool
    count: int
    where: str
    text: str
    at: str = ""
    clock: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class HardwareErrors:
    """All reports since the last boot that the logs show, in order."""

    errors: tuple[HardwareError, ...]
    cut: bool = False

    def merge(self, other: HardwareErrors) -> HardwareErrors:
        """Take the log that tells more: two logs of one host tell of the same errors."""
        fuller = other if len(other.errors) > len(self.errors) else self
        return replace(fuller, cut=self.cut and other.cut)


@parses(KERNEL_LOG)
def hardware_errors(capture: Capture) -> HardwareErrors:
    """Parse a kernel log; raises Unparsable for other logs."""
    log = kernel_log(capture)
    messages = (message for message in log.messages(_WORDS) if not message.earlier_boot)
    return HardwareErrors(tuple(error for message in messages for error in _errors(log, message)), log.cut)


def _errors(log: KernelLog, message: Message) -> Iterator[HardwareError]:
    text = message.text
    if found := _BANK.search(text):
        status = int(found["status"], 16)
        where = f"CPU {found['cpu']} bank {found['bank']}"
        yield _error(message, "bank", corrected=not status & _UNCORRECTED_BIT, where=where)
    elif _FATAL.search(text):
        yield _error(message, "exception", corrected=False)
    elif found := _EDAC.search(text):
        where = (found["where"] or "").strip()
        yield _error(message, "EDAC", corrected=found["kind"] == "CE", where=where, count=int(found["count"] or 1))
    elif found := _FIRMWARE.search(text):
        section = _section(log, message)
        if "PCIe" not in section and found["severity"] != "info":
            yield _error(message, "firmware", corrected=found["severity"] == "corrected", where=section)
    elif found := _DECODED.search(text):
        yield _error(message, "decoder", corrected=found["kind"] in ("Corrected", "Deferred"))
    elif _NOTICE.search(text):
        yield _error(message, "notice", corrected=True)


def _section(log: KernelLog, message: Message) -> str:
    """Return what a record of the firmware is about, such as "memory error"; pcie.aer tells of PCIe."""
    found = (_SECTION.search(line.text) for line in log.after(message, _RECORD_LINES))
    return next((section["section"].strip() for section in found if section), "")


def _error(message: Message, reporter: str, *, corrected: bool, where: str = "", count: int = 1) -> HardwareError:
    return HardwareError(
        reporter, corrected, count, where, message.text.strip(), message.at, message.clock, message.seconds
    )
