"""From findings to an ordered plan. Pure: what is not in the findings does not happen."""

from __future__ import annotations

from collections.abc import Iterable

from qwenhost.records.finding import Finding, Verdict
from qwenhost.records.plan import Plan, Step

ROLE_ORDER = ("gpu_driver", "host_tuning", "gpu_partitions", "vllm_service")
"""The driver before all that asks it, pages before services take memory, partitions before what runs on them."""

OPEN = (Verdict.FAIL, Verdict.UNKNOWN)


def make_plan(findings: Iterable[Finding]) -> Plan:
    """Return the steps that the findings ask for, the findings that stop the host, and the reasons for a reboot.

    A failure whose remedy is no role blocks; so does a thing that could not be seen and that no role
    would put there, because nobody knows what it hides. What a reboot puts right is a reason for one, even where
    it only warns. Consequences of another finding ask for nothing.
    """
    causes = [finding for finding in findings if not finding.cause]
    open_findings = [finding for finding in causes if finding.verdict in OPEN]
    steps = tuple(
        Step(role, asking)
        for role in ROLE_ORDER
        if (asking := tuple(finding for finding in open_findings if finding.remedy.role == role))
    )
    blockers = tuple(finding for finding in open_findings if finding.remedy.kind not in ("role", "reboot"))
    return Plan(steps, blockers, tuple(finding for finding in causes if _waits_for_reboot(finding)))


def _waits_for_reboot(finding: Finding) -> bool:
    return finding.remedy.kind == "reboot" and finding.verdict in (*OPEN, Verdict.WARN)
