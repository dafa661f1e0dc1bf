"""Begin and end a run on a host: its lock, and the state that a rollback restores."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from qwenhost.ansible.shipping import read_answer, run_zipapp
from qwenhost.workflows.controller import controller, dead, run_name

ARGUMENTS = {
    "act": {"type": "str", "required": True, "choices": ["begin", "end", "rollback"]},
    "sysctl": {"type": "list", "elements": "str", "default": []},
    "to": {"type": "str", "default": ""},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Sends the act; a holder that is known to be dead is asked for again by its name."""

    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Do the act on one host."""
        result = dict(super().run(tmp, task_vars))
        _, options = self.validate_argument_spec(ARGUMENTS)
        answer = self._ask(options, task_vars or {}, "")
        if "held_by" in answer and dead(answer["held_by"]["controller"]):
            answer = self._ask(options, task_vars or {}, answer["held_by"]["controller"])
        if "held_by" in answer:
            raise AnsibleActionFail(
                "another run holds this host: {run} of {controller}".format(**answer["held_by"])
            )
        result.update(answer)
        if self._task.diff and options["act"] == "rollback":
            result["diff"] = {key: "\n".join([*answer[key], ""]) for key in ("before", "after")}
        return result

    def _ask(self, options: dict[str, Any], task_vars: dict[str, Any], holder: str) -> dict[str, Any]:
        controlling = os.getppid()  # each task runs in a fork of the process that runs the play
        request = {**options, "run": run_name(controlling), "controller": controller(controlling), "dead": holder}
        check = ("--check",) if self._task.check_mode else ()
        ran = run_zipapp(self, task_vars, "hands", json.dumps(request), options["act"], *check)
        answer = read_answer(ran)
        if "error" in answer:
            raise AnsibleActionFail(answer["error"])
        return answer
