"""From findings to an ordered plan. Pure: what is not in the findings does not happen."""

from __future__ import annotations

from collections.abc import Iterable

from qwenhost.records.finding import Finding, Verdict
from qwenhost.records.plan import Plan, Step

ROLE_ORDER = ("gpu_driver", "host_tuning", "gpu_partitions", "vllm_service")
"""The driver before all that asks it, pages before services take memory, partitions before what runs on them."""


def make_plan(findings: Iterable[Finding]) -> Plan:
    """Return the steps that the findings ask for, and the findings that stop the host.

    A failure whose remedy is no role blocks; so does a thing that could not be seen and that no role
    would put there, because nobody knows what it hides. Consequences of another finding ask for nothing.
    """
    open_findings = [finding for finding in findings if _open(finding)]
    steps = tuple(
        Step(role, asking)
        for role in ROLE_ORDER
        if (asking := tuple(finding for finding in open_findings if finding.remedy.role == role))
    )
    return Plan(steps, tuple(finding for finding in open_findings if finding.remedy.kind != "role"))


def _open(finding: Finding) -> bool:
    return finding.verdict in (Verdict.FAIL, Verdict.UNKNOWN) and not finding.cause
