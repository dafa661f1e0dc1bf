"""What a provision will do on one host, and what keeps it from doing anything."""

from __future__ import annotations

from dataclasses import dataclass

from qwenhost.records.finding import Finding, Verdict

REBOOT = "reboot"

SERVING = "vllm_service"
"""The role that runs after a reboot; all others run before it."""


@dataclass(frozen=True)
class Consent:
    """What the operator allows on a host: to go on in spite of what no role can fix, and to reboot it once."""

    force: bool = False
    reboot: bool = False


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

    def stoppers(self, consent: Consent) -> tuple[Finding, ...]:
        """Return what stops the host before any change."""
        if consent.force:
            return ()
        waiting = () if consent.reboot else self.reboots
        return (*self.blockers, *(reason for reason in waiting if reason.verdict is not Verdict.WARN))

    def acts(self, consent: Consent) -> tuple[str, ...]:
        """Return what is done, in order: names of roles, and the reboot; nothing for a host that is stopped."""
        if self.stoppers(consent):
            return ()
        reboot = (REBOOT,) if self.reboots and consent.reboot else ()
        serving = tuple(role for role in self.roles if role == SERVING)
        return (*(role for role in self.roles if role != SERVING), *reboot, *serving)
