"""What is made of ansible-runner's events."""

from __future__ import annotations

from typing import Any

import pytest

from qwenhost.records.task_event import TaskEvent
from qwenhost.workflows.content import content_dir
from qwenhost.workflows.playbook import PlaybookRun, handle

ROLE_TASK = content_dir() / "roles/host_tuning/tasks/main.yml"
PLAYBOOK_TASK = content_dir() / "playbooks/tasks/change.yml"


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": "h1", "task": "Do it", "role": "host_tuning", **data}}


def handled(*events: dict[str, Any]) -> tuple[PlaybookRun, list[TaskEvent]]:
    run, seen = PlaybookRun(), []
    for one in events:
        handle(one, run, seen.append)
    return run, seen


@pytest.mark.parametrize(("path", "role"), [(f"{ROLE_TASK}:7", "host_tuning"), (f"{PLAYBOOK_TASK}:7", "")])
def test_a_task_of_the_playbook_has_no_role_whatever_another_host_does(path: str, role: str) -> None:
    run, seen = handled(event("runner_on_ok", task_path=path, res={"changed": True}))
    assert [(one.kind, one.role) for one in seen] == [("changed", role)]
    assert [change.role for change in run.changes["h1"]] == [role]


def test_a_task_that_says_nothing_of_itself_may_have_changed_something() -> None:
    hidden = event("runner_on_ok", task_path=f"{ROLE_TASK}:9", res={"censored": "hidden"})
    run, seen = handled(hidden | {"stdout": "\r\nchanged: [h1]"}, hidden | {"stdout": "ok: [h1]"})
    assert [one.kind for one in seen] == ["changed", "ok"]
    assert len(run.changes["h1"]) == 1


def test_the_recap_tells_which_hosts_broke_off() -> None:
    failed = event("runner_on_failed", task_path=f"{ROLE_TASK}:1", res={"msg": "no\n room"})
    stats = {"event": "playbook_on_stats", "event_data": {"failures": {"h1": 1}, "ok": {"h1": 2, "h2": 3}}}
    run, _ = handled(failed, stats)
    assert (run.broken("h1"), run.broken("h2")) == ("Do it: no room", "")
