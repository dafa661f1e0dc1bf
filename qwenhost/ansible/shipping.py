"""Run a zipapp on a host over Ansible's own connection: become, jump hosts and vault work as for any task."""

from __future__ import annotations

import json
import shlex
from typing import Any, Protocol


class Action(Protocol):
    """The parts of Ansible's ActionBase that shipping needs."""

    _connection: Any

    def _make_tmp_path(self) -> str: ...
    def _transfer_data(self, remote_path: str, data: bytes) -> str: ...
    def _fixup_perms2(self, remote_paths: tuple[str, ...]) -> Any: ...
    def _remove_tmp_path(self, tmp_path: str) -> None: ...
    def _low_level_execute_command(self, command: str, in_data: bytes) -> dict[str, Any]: ...


def run_zipapp(
    action: Action, task_vars: dict[str, Any], zipapp: bytes, request: str, *arguments: str
) -> dict[str, Any]:
    """Copy `zipapp` to the host, run it with `request` on its standard input, remove it.

    Returns Ansible's {"rc", "stdout", "stderr"}.
    """
    folder = action._make_tmp_path()
    try:
        path = action._connection._shell.join_path(folder, "qwenhost.pyz")
        action._transfer_data(path, zipapp)
        action._fixup_perms2((folder, path))
        command = shlex.join([interpreter(task_vars), path, *arguments])
        return action._low_level_execute_command(command, in_data=request.encode())
    finally:
        action._remove_tmp_path(folder)


def interpreter(task_vars: dict[str, Any]) -> str:
    """Return the host's Python: the inventory's choice, else `python3`; discovery names are not paths."""
    chosen = str(task_vars.get("ansible_python_interpreter") or "")
    return chosen if chosen and not chosen.startswith("auto") else "python3"


def read_answer(ran: dict[str, Any]) -> dict[str, Any]:
    """Return what the hands wrote, or {"error"} in one line where they wrote no answer."""
    lines = str(ran["stdout"]).strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        answer = None
    if isinstance(answer, dict) and ("error" in answer or ran["rc"] == 0):
        return answer
    said = " ".join(str(ran["stderr"] or ran["stdout"]).split())[-300:]
    return {"error": f"the hands gave no answer (exit {ran['rc']}): {said or 'and no message'}"}
