"""What a running playbook says while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TaskKind = Literal["start", "ok", "changed", "failed", "unreachable", "skipped", "retry"]


@dataclass(frozen=True)
class TaskEvent:
    """One task on one host. `output` is Ansible's own text, with diffs if they were asked for."""

    kind: TaskKind
    host: str
    task: str
    role: str = ""
    message: str = ""
    output: str = ""
