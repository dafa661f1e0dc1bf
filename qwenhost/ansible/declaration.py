"""What the inventory declares for a host, out of the variables of a running play."""

from __future__ import annotations

from typing import Any

from qwenhost.expectations.declared import Declared, read_declared

PREFIX = "qwenhost_"


def declared_of(templar: Any, task_vars: dict[str, Any]) -> Declared:
    """Return the validated declaration. Raises QwenhostError naming the host and the variable."""
    raw = {name: value for name, value in task_vars.items() if name.startswith(PREFIX)}
    return read_declared(templar.template(raw), host=str(task_vars["inventory_hostname"]))
