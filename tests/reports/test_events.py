"""A run's events as JSON lines."""

from __future__ import annotations

import io
import json

from qwenhost.records.task_event import TaskEvent
from qwenhost.reports.events import written


def test_each_event_is_one_line_and_is_passed_on() -> None:
    stream, passed = io.StringIO(), []
    observe = written(stream, passed.append)
    event = TaskEvent("changed", "h1", "Write limits", "host_tuning", "two\nlines", output="+secret")
    observe(event)
    observe(TaskEvent("failed", "h2", "Start"))
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert passed[0] is event
    assert (first["schema"], first["host"], first["message"]) == (1, "h1", "two\nlines")
    assert (second["kind"], second["host"]) == ("failed", "h2")
    assert "secret" not in stream.getvalue()
