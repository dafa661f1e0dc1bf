"""Smoke-test the declared vLLM instances of a host, from the host itself."""

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from qwenhost.ansible.declaration import declared_of
from qwenhost.ansible.shipping import fetch, read_answer, run_zipapp
from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import Finding, Verdict
from qwenhost.reports.json_report import finding_part
from qwenhost.workflows import gpu_held
from qwenhost.workflows.served import smoke_instances


class ActionModule(ActionBase):  # type: ignore[misc]
    """Returns the findings; fails the host where one of them fails or could not be seen."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask every instance of one host."""
        super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec({"full": {"type": "bool", "default": False}})
        variables = task_vars or {}
        try:
            declared = declared_of(self._templar, variables)
            findings = smoke_instances(
                declared,
                lambda request: self._send(request, variables),
                lambda: fetch(self, variables, gpu_held.SOURCES),
                full=arguments["full"],
            )
        except QwenhostError as error:
            raise AnsibleActionFail(f"{error} ({error.hint})" if error.hint else str(error)) from error
        report = [finding_part(finding) for finding in findings]
        return {"changed": False, "report": report, **_failure(findings)}

    def _send(self, request: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        answer = read_answer(run_zipapp(self, task_vars, "hands", json.dumps(request), "http"))
        if "error" in answer:
            raise OSError(answer["error"])
        return answer


def _failure(findings: tuple[Finding, ...]) -> dict[str, Any]:
    bad = [finding for finding in findings if finding.verdict in (Verdict.FAIL, Verdict.UNKNOWN)]
    told = "; ".join(f"{finding.check} {finding.subject}: {finding.observed}" for finding in bad)
    return {"failed": True, "msg": told} if bad else {}
