"""What the inventory declares for a host, out of the variables of a running play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qwenhost.expectations.declared import Declared, read_declared
from qwenhost.workflows.key_files import with_key_digest
from qwenhost.workflows.mig_files import with_mig_file

PREFIX = "qwenhost_"


def declared_of(templar: Any, task_vars: dict[str, Any]) -> Declared:
    """Return the validated declaration. Raises QwenhostError naming the host and the variable."""
    raw = {name: value for name, value in task_vars.items() if name.startswith(PREFIX)}
    folder = Path(str(task_vars.get("inventory_dir") or "."))
    values = with_key_digest(with_mig_file(templar.template(raw), folder), folder)
    return read_declared(values, host=str(task_vars["inventory_hostname"]))
