"""Do one of the host-side acts for which no builtin module is idempotent, over Ansible's connection."""

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from qwenhost.ansible.shipping import read_answer, run_zipapp

ACTS = (
    *("sysctl", "thp", "hugepages", "tuning", "driver", "driver-look", "mig", "wait-gpu", "api-key", "http"),
    *("model", "model-room", "model-place", "switch-keep", "switch-back", "switch-prove"),
)
ARGUMENTS = {
    "act": {"type": "str", "required": True, "choices": list(ACTS)},
    "request": {"type": "dict", "required": True},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Ships the hands, returns their answer; check mode changes nothing, diff mode shows before and after."""

    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Do the act on one host."""
        result = dict(super().run(tmp, task_vars))
        _, options = self.validate_argument_spec(ARGUMENTS)
        check = ("--check",) if self._task.check_mode else ()
        request = json.dumps(options["request"])
        ran = run_zipapp(self, task_vars or {}, "hands", request, options["act"], *check)
        answer = read_answer(ran)
        if "error" in answer:
            raise AnsibleActionFail(answer["error"])
        result.update({"changed": False, **answer})
        if self._task.diff and "before" in answer:
            result["diff"] = {"before": _text(answer["before"]), "after": _text(answer["after"])}
        return result


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
