"""What a provision will do on one host, and what keeps it from doing anything."""

from __future__ import annotations

from dataclasses import dataclass

from qwenhost.records.finding import Finding, Verdict


@dataclass(frozen=True)
class Step:
    """One role to run, with the findings that ask for it."""

    role: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Plan:
    """Ordered steps, and the findings that no role can fix.

    `blockers` stop a host before any change. `reboots` are the reasons for a reboot: the host can go on without
    one where they only warn.
    """

    steps: tuple[Step, ...]
    blockers: tuple[Finding, ...]
    reboots: tuple[Finding, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles to run, in order."""
        return tuple(step.role for step in self.steps)

    def stoppers(self, reboot: bool) -> tuple[Finding, ...]:
        """Return what stops the host; what a reboot puts right does not, where the host may be rebooted."""
        waiting = () if reboot else self.reboots
        return (*self.blockers, *(reason for reason in waiting if reason.verdict is not Verdict.WARN))
