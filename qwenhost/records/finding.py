"""A check's verdict on a subject, and what would put it right. Fields only: `reports/` makes the words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from qwenhost.records.bundle import Bundle
from qwenhost.records.since import Since


class Verdict(StrEnum):
    """Worst last, as far as alarm goes; `unknown` means: applies, but was not seen."""

    SKIP = "skip"
    PASS = "pass"
    NOTE = "note"
    UNKNOWN = "unknown"
    WARN = "warn"
    FAIL = "fail"


RemedyKind = Literal["role", "reboot", "firmware", "hardware", "hand", "none"]


@dataclass(frozen=True)
class Remedy:
    """What would fix a finding: a role by name, a reboot, firmware, hardware work, or an act by hand.

    `text` is the next step in the imperative, one sentence."""

    kind: RemedyKind = "none"
    role: str = ""
    text: str = ""


def by_role(role: str, text: str = "") -> Remedy:
    """A role of this project puts it right."""
    return Remedy("role", role, text or f"Run qwenhost provision: the role {role} sets it.")


def by_hardware(text: str) -> Remedy:
    """Somebody has to touch the machine."""
    return Remedy("hardware", text=text)


def by_reboot(text: str) -> Remedy:
    """A reboot puts it right."""
    return Remedy("reboot", text=text)


def by_firmware(text: str) -> Remedy:
    """A firmware update or firmware setting puts it right."""
    return Remedy("firmware", text=text)


def by_hand(text: str) -> Remedy:
    """An operator has to act; no role does it."""
    return Remedy("hand", text=text)


NO_REMEDY = Remedy()


@dataclass(frozen=True)
class Finding:
    """One row of a report. `observed` and `expected` are short plain values with their unit."""

    check: str
    subject: str
    verdict: Verdict
    observed: str = ""
    expected: str = ""
    why: str = ""
    remedy: Remedy = NO_REMEDY
    origin: str = ""
    """Where the expectation came from: data file and key, or inventory variable."""
    evidence: str = ""
    """The line or value that was read."""
    source: str = ""
    """Source that was missing (unknown) or read."""
    cause: str = ""
    """Check id of the finding that this one is a consequence of; empty for a cause."""


@dataclass(frozen=True)
class Change:
    """Something that a run changed on a host."""

    task: str
    role: str = ""
    detail: str = ""


@dataclass(frozen=True)
class HostReport:
    """All findings and changes of one host. `error` is set when it could not be examined at all."""

    host: str
    sku: str
    findings: tuple[Finding, ...]
    changes: tuple[Change, ...] = ()
    unrecognised: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    bundle: Bundle | None = field(default=None, repr=False, compare=False)
    """What was judged, for pictures of the machine; None where the host was not reached."""
    since: Since | None = None
    """What changed since the run before; None where there was none, or nobody kept it."""

    @property
    def examined_at(self) -> str:
        """ISO 8601 UTC, empty where nobody noted it."""
        return self.bundle.captured_at if self.bundle else ""

    def count(self, verdict: Verdict) -> int:
        """Number of findings with this verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)
