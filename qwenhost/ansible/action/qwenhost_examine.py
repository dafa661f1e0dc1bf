"""Examine a host over Ansible's connection and judge it here, on the controller."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from qwenhost.ansible.declaration import declared_of
from qwenhost.ansible.shipping import fetch
from qwenhost.expectations.declared import Declared
from qwenhost.plan import make_plan
from qwenhost.records.bundle import Bundle
from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.records.plan import Consent, Plan
from qwenhost.reports.json_report import host_part
from qwenhost.workflows import handed
from qwenhost.workflows.doctor import examine_bundle, get_ready, role_settings, sources_of

# Loaded once, for the processes that Ansible forks, one for each task; so are patterns that its filters compile.
get_ready()
import_module("ansible.utils.version")

REQUIRED = {
    "nothing": (),
    "no-failures": (Verdict.FAIL,),
    "all-seen": (Verdict.FAIL, Verdict.UNKNOWN),
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Returns findings, the roles to run and their arguments; never changes anything."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Examine one host."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "stop_at_blockers": {"type": "bool", "default": False},
                "reboot": {"type": "bool", "default": False},
                "only": {"type": "list", "elements": "str", "default": []},
                "require": {"type": "str", "choices": list(REQUIRED), "default": "nothing"},
            }
        )
        try:
            return self._examine(options, task_vars or {})
        except QwenhostError as error:
            raise AnsibleActionFail(f"{error} ({error.hint})" if error.hint else str(error)) from error

    def _examine(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        host = str(task_vars["inventory_hostname"])
        declared = declared_of(self._templar, task_vars)
        bundle = handed.receive(host) or self._probe(declared, task_vars)
        report = examine_bundle(bundle, declared)
        plan = make_plan(report.findings)
        return {
            "changed": False,
            "roles": [role for role in plan.roles if role in options["only"] or not options["only"]],
            "failures": [_told(finding) for finding in report.findings if finding.verdict is Verdict.FAIL],
            "settings": role_settings(bundle, declared),
            "report": host_part(report),
            **_waiting(plan, options["reboot"]),
            **_refusal(report, plan, options),
        }

    def _probe(self, declared: Declared, task_vars: dict[str, Any]) -> Bundle:
        bundle = fetch(self, task_vars, sources_of(declared))
        handed.note(bundle)
        return bundle


def _waiting(plan: Plan, reboot: bool) -> dict[str, Any]:
    """Return what the host is to be rebooted for; where it may not be, that it waits, as warnings."""
    if reboot:
        return {"reboot_for": [_told(reason) for reason in plan.reboots]}
    return {"reboot_for": [], "warnings": [f"waits for a reboot: {_told(reason)}" for reason in plan.reboots]}


def _refusal(report: HostReport, plan: Plan, options: dict[str, Any]) -> dict[str, Any]:
    """Return Ansible's failure fields where the findings do not allow the play to go on."""
    refused = plan.stoppers(Consent(force=not options["stop_at_blockers"], reboot=options["reboot"]))
    required = [finding for finding in report.findings if finding.verdict in REQUIRED[options["require"]]]
    told = [_told(finding) for finding in (*refused, *required)]
    return {"failed": True, "msg": "; ".join(told)} if told else {}


def _told(finding: Finding) -> str:
    return f"{finding.check} {finding.subject}: {finding.observed}"
