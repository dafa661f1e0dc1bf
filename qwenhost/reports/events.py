"""Task events as JSON lines, for programs that follow a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TextIO

from qwenhost.records.task_event import TaskEvent

SCHEMA = 1
FIELDS = ("kind", "host", "role", "task", "message")
"""Not Ansible's own output: it may hold contents of files."""


def written(stream: TextIO, then: Callable[[TaskEvent], None]) -> Callable[[TaskEvent], None]:
    """Return what writes each event to `stream` at once, and passes it on."""

    def observe(event: TaskEvent) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        fields = {field: getattr(event, field) for field in FIELDS}
        stream.write(json.dumps({"schema": SCHEMA, "at": at, **fields}) + "\n")
        stream.flush()
        then(event)

    return observe
