"""Run a zipapp on a host over Ansible's own connection: become, jump hosts and vault work as for any task."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any, Protocol

from qwenhost.packing import hands_zipapp, probe_zipapp
from qwenhost.records.bundle import Bundle
from qwenhost.records.errors import QwenhostError
from qwenhost.records.source import Source
from qwenhost.transports import piped, request

ZIPAPPS = {"probe": probe_zipapp, "hands": hands_zipapp}
for pack in ZIPAPPS.values():
    pack()  # kept for the processes that Ansible forks, one for each task


class Action(Protocol):
    """The part of Ansible's ActionBase that shipping needs."""

    def _low_level_execute_command(self, command: str, in_data: bytes) -> dict[str, Any]: ...


def run_zipapp(
    action: Action, task_vars: dict[str, Any], package: str, asked: str, *arguments: str
) -> dict[str, Any]:
    """Run a zipapp on the host with `asked` on its standard input, in one command.

    Returns Ansible's {"rc", "stdout", "stderr"}.
    """
    command = shlex.join([interpreter(task_vars), "-c", piped.program(package), *arguments])
    payload = piped.payload(ZIPAPPS[package](), asked.encode())
    return action._low_level_execute_command(command, in_data=payload)


def fetch(action: Action, task_vars: dict[str, Any], sources: Iterable[Source]) -> Bundle:
    """Read sources on the host with the probe. Raises QwenhostError where it gives no answer."""
    host = str(task_vars["inventory_hostname"])
    ran = run_zipapp(action, task_vars, "probe", request.make_request(host, sources).decode())
    if ran["rc"] != 0:
        raise QwenhostError(f"the probe ended with {ran['rc']}: {ran['stderr'].strip()[-200:]}")
    return request.read_answer(host, ran["stdout"].encode())


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
