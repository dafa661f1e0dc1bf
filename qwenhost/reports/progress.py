"""What a run is doing: a live table of hosts on a terminal, a plain line per change elsewhere."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TextIO

from qwenhost.records.task_event import TaskEvent
from qwenhost.reports.text import wants_colour

REFRESH_SECONDS = 0.1

STYLES = {"changed": "green", "failed": "bold red", "unreachable": "bold red", "retry": "yellow"}

WAITING = "waiting"

TOLD = ("changed", "failed", "unreachable")
"""Kinds of event that leave a line behind; the others are only shown while they last."""


@dataclass(frozen=True)
class Doing:
    """Where a host is: `stage` is a role, or what is done between roles; `since` is monotonic seconds."""

    stage: str
    task: str
    since: float
    kind: str = ""

    @property
    def where(self) -> str:
        """The stage and its task in one."""
        return f"{self.stage}: {self.task}" if self.task else self.stage


@dataclass
class Progress:
    """Takes task events from any thread and shows them; a context manager.

    `verbose`: every finished task leaves a line; `output`: Ansible's own text (diffs) is passed on.
    """

    hosts: Iterable[str]
    stream: TextIO
    verbose: bool = False
    output: bool = False
    _events: queue.Queue[Any] = field(default_factory=queue.Queue)
    _doing: dict[str, Doing] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def __call__(self, event: TaskEvent) -> None:
        """Take one event; returns at once."""
        self._events.put(event)

    @property
    def doing(self) -> dict[str, str]:
        """Host -> the task that it was at last."""
        return {host: doing.where for host, doing in self._doing.items()}

    def __enter__(self) -> Progress:
        """Start showing."""
        self._doing = dict.fromkeys(self.hosts, Doing(WAITING, "", time.monotonic()))
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show what is still waiting, then stop."""
        self._events.put(None)
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if wants_colour(self.stream):
            self._show_live()
        else:
            for event in iter(self._events.get, None):
                for text, _ in self._lines(event):
                    self.stream.write(text + "\n")
                    self.stream.flush()

    def _show_live(self) -> None:
        from rich.console import Console  # costs 50 ms, and only a terminal needs it
        from rich.live import Live

        started = time.monotonic()
        with Live(console=Console(file=self.stream, highlight=False), transient=True, auto_refresh=False) as live:
            while True:
                try:
                    event = self._events.get(timeout=REFRESH_SECONDS)
                except queue.Empty:
                    live.update(self._table(time.monotonic() - started), refresh=True)
                    continue
                if event is None:
                    return
                for text, style in self._lines(event):
                    live.console.print(text, style=style, markup=False, soft_wrap=True)

    def _lines(self, event: TaskEvent) -> Iterable[tuple[str, str]]:
        doing = self._doing[event.host] = self._now(event)
        if event.kind in TOLD or (self.verbose and event.kind in ("ok", "skipped")):
            message = f": {event.message}" if event.kind in ("failed", "unreachable") else ""
            yield f"{event.host}  {event.kind}  {doing.where}{message}", STYLES.get(event.kind, "dim")
        if self.output and event.output.strip() and event.kind == "changed":
            yield event.output.strip("\r\n"), ""

    def _now(self, event: TaskEvent) -> Doing:
        """Return where the host is; a stage lasts as long as its tasks follow one another."""
        stage, task = (event.role, event.task) if event.role else (event.task, "")
        before = self._doing.get(event.host)
        same = before is not None and before.stage == stage
        return Doing(stage, task, before.since if before and same else time.monotonic(), event.kind)

    def _table(self, seconds: float) -> Any:
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("host", "stage", "task"):
            table.add_column(name, no_wrap=True)
        table.add_column("since", justify="right")
        now = time.monotonic()
        for host, doing in self._doing.items():
            since = "" if doing.stage == WAITING else f"{now - doing.since:.0f} s"
            table.add_row(host, doing.stage, doing.task, since, style=STYLES.get(doing.kind, "cyan"))
        table.add_row("", "", "", f"{seconds:.0f} s", style="dim")
        return table
