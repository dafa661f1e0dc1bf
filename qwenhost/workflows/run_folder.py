"""What a provision did, kept under $XDG_STATE_HOME/qwenhost/runs: its report in three forms, and its events.

Nothing here ends a run: where a folder cannot be written, one message says so. Private: host names and
settings are in it, but no secrets.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from qwenhost.records.finding import HostReport
from qwenhost.records.task_event import TaskEvent
from qwenhost.reports import json_report, page, text
from qwenhost.reports.events import written
from qwenhost.reports.files import PRIVATE, write_whole
from qwenhost.workflows.state import StateUnusable, Tell, state_folder

KEPT = 20
NAME = re.compile(r"\d{8}T\d{6}Z-.+")
EVENTS = "events.jsonl"

Observer = Callable[[TaskEvent], None]


@dataclass
class RunFolder:
    """One run's folder. `tell` takes a message for people."""

    path: Path
    tell: Tell
    broken: bool = False
    """Something could not be written, which was told; no more is tried."""

    def observer(self, then: Observer) -> Observer:
        """Return what keeps each event and passes it on."""

        def observe(event: TaskEvent) -> None:
            self._try(lambda: self._append(event))
            then(event)

        return observe

    def finish(self, reports: Sequence[HostReport], again: str) -> None:
        """Write the report and say where it is; `again` is the command that would run the roles."""
        forms = {
            "report.txt": text.render(reports, again=again),
            "report.json": json_report.render(reports) + "\n",
            "report.html": page.render(reports, again=again),
        }
        for name, content in forms.items():
            self._try(partial(write_whole, self.path / name, content, PRIVATE))
        if not self.broken:
            self.tell(f"report and events of this run: {self.path}")

    def _append(self, event: TaskEvent) -> None:
        with (self.path / EVENTS).open("a", encoding="utf-8") as stream:
            written(stream, lambda event: None)(event)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            if not self.broken:
                act()
        except OSError as error:
            self.broken = True
            self.tell(f"not all of this run is kept: {self.path}: {error.strerror}")


def open_run_folder(inventory: Path, tell: Tell) -> RunFolder | None:
    """Make the folder of a run on an inventory, and remove all but the last of the others."""
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{inventory.resolve().stem}"
    try:
        parent = state_folder() / "runs"
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = _made(parent / name)
        _forget(parent)
        return RunFolder(path, tell)
    except StateUnusable as error:
        tell(f"nothing of this run is kept: {error}")
    except OSError as error:
        tell(f"nothing of this run is kept: {error.filename}: {error.strerror}")
    return None


def _made(path: Path) -> Path:
    """Make a folder; one of the same second and inventory has a longer name."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return _made(path.with_name(f"{path.name}-again"))
    return path


def _forget(parent: Path) -> None:
    """Remove the runs that were written to longest ago; one that goes on is among the last."""
    runs = sorted((path for path in parent.iterdir() if NAME.fullmatch(path.name)), key=_written_at)
    for path in runs[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _written_at(run: Path) -> tuple[float, str]:
    """Return when a run was last written to; of the same tick of the clock, the name tells the order."""
    return max(path.stat().st_mtime for path in (run, run / EVENTS) if path.exists()), run.name
