"""What a provision will do on one host, and what keeps it from doing anything."""

from __future__ import annotations

from dataclasses import dataclass

from qwenhost.records.finding import Finding


@dataclass(frozen=True)
class Step:
    """One role to run, with the findings that ask for it."""

    role: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Plan:
    """Ordered steps, and the findings that no role can fix. `blockers` stop a host before any change."""

    steps: tuple[Step, ...]
    blockers: tuple[Finding, ...]

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles to run, in order."""
        return tuple(step.role for step in self.steps)
