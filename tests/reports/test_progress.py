"""What a run says away from a terminal: a plain line per thing that matters, in order."""

from __future__ import annotations

import io

import pytest

from qwenhost.records.task_event import TaskEvent, TaskKind
from qwenhost.reports.progress import Progress


def shown(*events: TaskEvent, verbose: bool = False, output: bool = False) -> list[str]:
    stream = io.StringIO()
    with Progress(["h1"], stream, verbose=verbose, output=output) as progress:
        for event in events:
            progress(event)
    return stream.getvalue().splitlines()


def test_changes_and_failures_leave_a_line_in_their_order() -> None:
    lines = shown(
        TaskEvent("start", "h1", "Examine"),
        TaskEvent("ok", "h1", "Examine"),
        TaskEvent("changed", "h1", "Write limits", role="host_tuning"),
        TaskEvent("failed", "h1", "Start the service", role="vllm_service", message="port 8000 is taken"),
    )
    assert lines == [
        "h1  changed  host_tuning: Write limits",
        "h1  failed  vllm_service: Start the service: port 8000 is taken",
    ]


@pytest.mark.parametrize("kind", ["ok", "skipped"])
def test_the_uneventful_is_told_only_on_request(kind: TaskKind) -> None:
    event = TaskEvent(kind, "h1", "Examine")
    assert shown(event) == []
    assert shown(event, verbose=True) == [f"h1  {kind}  Examine"]


def test_a_lost_host_is_told_with_the_reason() -> None:
    lines = shown(TaskEvent("unreachable", "h1", "Examine", message="no route"))
    assert lines == ["h1  unreachable  Examine: no route"]


def test_diffs_follow_their_change_where_they_were_asked_for() -> None:
    event = TaskEvent("changed", "h1", "Write limits", output="\n--- before\n+++ after\n\n")
    assert shown(event) == ["h1  changed  Write limits"]
    assert shown(event, output=True) == ["h1  changed  Write limits", "--- before", "+++ after"]


def test_plain_lines_hold_no_control_characters() -> None:
    lines = shown(TaskEvent("changed", "h1", "[bold]x[/bold]"))
    assert lines == ["h1  changed  [bold]x[/bold]"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_host_stage_task_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    progress = Progress(["h1", "h2"], Terminal())
    with progress:
        pass
    list(progress._lines(TaskEvent("ok", "h1", "Write limits", role="host_tuning")))
    began = progress._doing["h1"].since
    list(progress._lines(TaskEvent("start", "h1", "Bring pools into force", role="host_tuning")))
    assert progress._doing["h1"].since == began, "a stage lasts over its tasks"
    assert progress.doing == {"h1": "host_tuning: Bring pools into force", "h2": "waiting"}
    columns = [[str(cell) for cell in column.cells] for column in progress._table(12).columns]
    assert columns[:3] == [["h1", "h2", ""], ["host_tuning", "waiting", ""], ["Bring pools into force", "", ""]]
    assert columns[3][1:] == ["", "12 s"]
