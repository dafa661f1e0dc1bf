"""What a running playbook says while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TaskKind = Literal["start", "ok", "changed", "failed", "unreachable", "skipped", "retry"]


@dataclass(frozen=True)
class TaskEvent:
    """One task on one host. `output` is Ansible's own text of what differs, where it was asked for."""

    kind: TaskKind
    host: str
    task: str
    role: str = ""
    message: str = ""
    output: str = ""
