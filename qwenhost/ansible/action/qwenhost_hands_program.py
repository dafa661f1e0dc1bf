"""Install the hands on a host, for the units that use them at boot."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from qwenhost.packing import hands_zipapp


class ActionModule(ActionBase):  # type: ignore[misc]
    """Hands the archive to the `copy` action: check mode, diff mode and changed are those of `copy`."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Bring the archive to one host."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec({"dest": {"type": "path", "required": True}})
        folder = str(Path(options["dest"]).parent)
        made = self._execute_module(
            module_name="ansible.legacy.file",
            module_args={"path": folder, "state": "directory", "mode": "0755"},
            task_vars=task_vars,
        )
        if made.get("failed"):
            return dict(made)
        copied = self._copy(options["dest"], task_vars or {})
        return {**copied, "changed": bool(copied.get("changed") or made.get("changed"))}

    def _copy(self, dest: str, task_vars: dict[str, Any]) -> dict[str, Any]:
        with tempfile.NamedTemporaryFile(prefix="qwenhost-hands-") as archive:
            archive.write(hands_zipapp())
            archive.flush()
            task = self._task.copy()
            task.args = {"src": archive.name, "dest": dest, "mode": "0755"}
            copy = self._shared_loader_obj.action_loader.get(
                "ansible.legacy.copy",
                task=task,
                connection=self._connection,
                play_context=self._play_context,
                loader=self._loader,
                templar=self._templar,
                shared_loader_obj=self._shared_loader_obj,
            )
            return dict(copy.run(task_vars=task_vars))
