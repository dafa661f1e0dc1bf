"""What a run leaves behind on the controller."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.records.task_event import TaskEvent
from qwenhost.workflows.run_folder import KEPT, RunFolder, open_run_folder

REPORT = HostReport("h1", "", (Finding("host.swap", "host", Verdict.FAIL, observed="on"),))
SECRET = "key-of-the-api"
EVENT = TaskEvent("changed", "h1", "Write the key", "vllm_service", output=f"+++ after\n+{SECRET}")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "qwenhost" / "runs"


@pytest.fixture
def told() -> list[str]:
    return []


def opened(told: list[str], inventory: str = "rack7.yml") -> RunFolder:
    folder = open_run_folder(Path(inventory), told.append)
    assert folder
    return folder


def test_a_run_leaves_its_report_and_its_events(told: list[str]) -> None:
    folder, passed_on = opened(told), []
    folder.observer(passed_on.append)(EVENT)
    folder.finish([REPORT], "qwenhost provision rack7.yml")
    assert passed_on == [EVENT]
    assert folder.path.name.endswith("Z-rack7")
    kept = {path.name: path.read_text() for path in folder.path.iterdir()}
    assert "FAIL host.swap" in kept["report.txt"]
    assert json.loads(kept["report.json"])["hosts"][0]["host"] == "h1"
    assert kept["report.html"].startswith("<!")
    assert json.loads(kept["events.jsonl"])["task"] == "Write the key"
    assert SECRET not in "".join(kept.values()), "contents of files stay on their hosts"
    assert told == [f"report and events of this run: {folder.path}"]


def test_only_the_owner_reads_it(told: list[str], runs: Path) -> None:
    folder = opened(told)
    folder.finish([REPORT], "")
    assert {path.stat().st_mode & 0o077 for path in (runs, folder.path)} == {0}


def test_the_last_runs_are_kept_and_nothing_else_is_touched(told: list[str], runs: Path) -> None:
    runs.mkdir(parents=True)
    old = [runs / f"202601{day:02}T000000Z-rack7" for day in range(1, KEPT + 5)]
    for path in (*old, runs / "notes"):
        path.mkdir()
    newest = opened(told).path
    assert sorted(runs.iterdir()) == sorted([*old[-KEPT + 1 :], newest, runs / "notes"])


def test_a_run_that_goes_on_is_kept_whatever_is_begun_meanwhile(told: list[str]) -> None:
    long = opened(told)
    observe = long.observer(lambda event: None)
    for _ in range(KEPT + 2):
        os.utime(opened(told).path, (0, 0))
        observe(EVENT)
    long.finish([REPORT], "")
    assert told == [f"report and events of this run: {long.path}"]


def test_two_runs_of_one_second_have_a_folder_each(told: list[str]) -> None:
    assert len({opened(told).path for _ in range(5)}) == 5


def test_a_folder_that_cannot_be_made_ends_no_run(told: list[str], runs: Path) -> None:
    runs.parent.mkdir(parents=True)
    runs.write_text("in the way")
    assert open_run_folder(Path("rack7.yml"), told.append) is None
    assert len(told) == 1 and told[0].startswith("nothing of this run is kept: ")


def test_a_full_disk_is_told_once_and_the_run_goes_on(told: list[str]) -> None:
    folder, passed_on = opened(told), []
    (folder.path / "events.jsonl").symlink_to("/dev/full")
    observe = folder.observer(passed_on.append)
    observe(EVENT)
    observe(EVENT)
    assert passed_on == [EVENT, EVENT]
    assert told == [f"not all of this run is kept: {folder.path}: No space left on device"]
