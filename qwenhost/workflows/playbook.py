"""Run a playbook through ansible-runner, and say what it did: per host changes, failures, results."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Change
from qwenhost.records.task_event import TaskEvent, TaskKind
from qwenhost.workflows import handed
from qwenhost.workflows.content import content_dir
from qwenhost.workflows.passwords import password_files
from qwenhost.workflows.runner_folder import forget_environment, runner_folder
from qwenhost.workflows.tied import Tied, own_signal_handlers

Observer = Callable[[TaskEvent], None]

JUDGING_MODULES = ("qwenhost_examine", "qwenhost_smoke")
"""They report; what they find is told by the report, not as a change."""

QUIET_MODULES = (*JUDGING_MODULES, "qwenhost_run")

FAIL = "ansible.builtin.fail"
"""In the playbook itself, it ends a host for what an examination found."""

PROGRAM = "ansible-playbook"

STATS = "playbook_on_stats"
NOT_ENDED = ("failures", "dark")
"""Counts of Ansible's recap that tell a host did not come to its end: failed (and not rescued), not reached."""


@dataclass
class PlaybookRun:
    """What came of a run, by host name."""

    changes: dict[str, list[Change]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    told_by_findings: set[str] = field(default_factory=set)
    """Hosts whose failure is that of findings, which the report has as well."""
    unreachable: dict[str, str] = field(default_factory=dict)
    smoke: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    recap: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Ansible's own, per count and host; empty where it ended before it."""
    status: str = ""
    bundles: dict[str, Bundle] = field(default_factory=dict)
    """What it took from a host at last, where it came to its end there."""
    diff: str = ""
    """What Ansible told of a task's differences, just before its result."""

    def note(self, event: TaskEvent, result: Mapping[str, Any], module: str) -> None:
        """Take in one finished task."""
        if event.kind == "changed" and module not in QUIET_MODULES:
            self.changes.setdefault(event.host, []).append(Change(event.task, event.role))
        if event.kind == "failed":
            self.failures[event.host] = f"{event.task}: {event.message}"
            by_findings = module in JUDGING_MODULES or (module == FAIL and not event.role)
            self.told_by_findings |= {event.host} if by_findings else set()
        if event.kind == "unreachable":
            self.unreachable[event.host] = event.message
        if module == "qwenhost_smoke" and "report" in result:
            self.smoke[event.host] = list(result["report"])

    def broken(self, host: str) -> str:
        """Return where the run broke off on a host; empty where it came to its end."""
        told = self.failures.get(host) or self.unreachable.get(host) or f"Ansible ended: {self.status}"
        ended = bool(self.recap) and not any(self.recap.get(count, {}).get(host) for count in NOT_ENDED)
        return "" if ended else told


@dataclass(frozen=True)
class PlaybookOptions:
    """How to run: `check` previews, `diff` shows contents, `limit` is an Ansible host pattern.

    `bundles`: of hosts that need not be asked before the first change.
    """

    inventory: Path
    limit: str = ""
    check: bool = False
    diff: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    bundles: Sequence[Bundle] = ()


def run_playbook(name: str, options: PlaybookOptions, observe: Observer) -> PlaybookRun:
    """Run playbooks/<name>.yml and pass every task event to `observe` (which must be quick).

    Raises KeyboardInterrupt on Ctrl-C and SIGTERM, which ansible-runner keeps to itself.
    """
    import ansible_runner  # costs 0.3 s, and only provisioning needs it
    from ansible_runner.utils import signal_handler

    run = PlaybookRun()
    content = content_dir()
    with runner_folder() as folder, own_signal_handlers():
        tied, bundles = Tied(PROGRAM, _path(), folder), folder / "bundles"
        result = ansible_runner.run(
            private_data_dir=str(folder),
            project_dir=str(content),
            playbook=str(content / "playbooks" / f"{name}.yml"),
            inventory=str(options.inventory.resolve()),
            limit=options.limit or None,
            cmdline=" ".join(_flags(options)) or None,
            extravars=dict(options.extra),
            envvars={**_environment(content, folder, tied), **handed.give(bundles, options.bundles)},
            cancel_callback=tied.canceled_by(signal_handler()),
            settings={"pexpect_timeout": 0.5},  # how soon Ctrl-C is noticed
            quiet=True,
            event_handler=lambda event: handle(event, run, observe),
            status_handler=forget_environment,
        )
        run.status = str(result.status)
        ended = (host for host in run.recap.get("processed", ()) if not run.broken(host))
        run.bundles = {bundle.host: bundle for bundle in handed.taken(bundles, ended)}
    if tied.interrupted:
        raise KeyboardInterrupt
    return run


def _flags(options: PlaybookOptions) -> list[str]:
    return ["--check"] * options.check + ["--diff"] * options.diff


def _path() -> str:
    return f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', '')}"


def _environment(content: Path, folder: Path, tied: Tied) -> dict[str, str]:
    return {
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),  # gone with the folder, whatever ends the run
        "PATH": f"{tied.folder}{os.pathsep}{_path()}",
        "ANSIBLE_CONFIG": str(content / "ansible.cfg"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",  # ansible-runner switches it off unless told
        "ANSIBLE_NOCOLOR": "1",
        **password_files(),
    }


def handle(event: Mapping[str, Any], run: PlaybookRun, observe: Observer) -> bool:
    """Turn a runner event into ours; True keeps ansible-runner's own record of it."""
    if event.get("event") == STATS:
        run.recap = event["event_data"]
    if event.get("event") == "runner_on_file_diff":
        run.diff = _without_heading(str(event.get("stdout", "")))
    task_event = _task_event(event)
    if task_event is not None:
        if task_event.kind in ("ok", "changed"):
            task_event, run.diff = replace(task_event, output=run.diff), ""
        data = event.get("event_data", {})
        module = str(data.get("resolved_action") or data.get("task_action", ""))
        run.note(task_event, data.get("res") or {}, module)
        observe(task_event)
    return True


def _without_heading(text: str) -> str:
    """Return the differences in Ansible's text, without the heading of the task and with plain line ends."""
    lines = text.replace("\r", "").splitlines()
    return "\n".join(line for line in lines if line and not line.startswith("TASK ["))


CHANGED_LINE = re.compile(r"^changed: \[", re.MULTILINE)
"""What Ansible writes of a task with no_log, too; its result says nothing at all."""

KINDS: dict[str, TaskKind] = {
    "runner_on_start": "start",
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
    "runner_retry": "retry",
}


def _task_event(event: Mapping[str, Any]) -> TaskEvent | None:
    kind = KINDS.get(str(event.get("event")))
    data = event.get("event_data", {})
    if kind is None or "host" not in data:
        return None
    result = data.get("res") or {}
    if kind == "ok" and (result.get("changed") or CHANGED_LINE.search(str(event.get("stdout", "")))):
        kind = "changed"
    if kind == "failed" and data.get("ignore_errors"):
        kind = "ok"
    return TaskEvent(
        kind=kind,
        host=str(data["host"]),
        task=str(data.get("task", "")),
        role=_role(data),
        message=_message(result),
    )


NO_MESSAGE = "non-zero return code"
"""What Ansible says of a command that failed; the command itself says why."""


def _role(data: Mapping[str, Any]) -> str:
    """Return whose task it is. A playbook's own is given the role that another host is at (strategy free)."""
    own = Path(str(data.get("task_path", ""))).is_relative_to(content_dir() / "playbooks")
    return "" if own else str(data.get("role", ""))


def _message(result: Mapping[str, Any]) -> str:
    """Return why a task failed, of a loop why its items did, on one line."""
    failed = [item for item in result.get("results") or () if isinstance(item, Mapping) and item.get("failed")]
    if failed:
        return "; ".join(dict.fromkeys(map(_message, failed)))
    for key in ("msg", "stderr", "stdout"):
        text = str(result.get(key) or "").strip()
        if text and text != NO_MESSAGE:
            return " ".join(text.split())
    return ""
