"""What is kept of each host between runs: one private JSON file per host under $XDG_STATE_HOME/qwenhost/hosts.

Nothing here ends a run: where it cannot be read or written, one message says so.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from qwenhost.facts.boot import Boot
from qwenhost.records.finding import HostReport
from qwenhost.records.since import Past, Remembered
from qwenhost.reports.files import PRIVATE, write_whole
from qwenhost.workflows.history import compare
from qwenhost.workflows.observed import fact_of

SCHEMA = 1

Tell = Callable[[str], None]
"""Takes one message for people."""


class StateUnusable(Exception):
    """Why a host's file is neither read nor written."""


def since_last_time(reports: Sequence[HostReport], tell: Tell) -> tuple[HostReport, ...]:
    """Return the reports with what changed since the run before, and keep this one for the next.

    Each problem is told once, however many hosts have it. A host that was not examined keeps its state.
    """
    problems: dict[str, None] = {}
    told = tuple(_with_past(report, problems) for report in reports)
    for problem in problems:
        tell(problem)
    return told


def _with_past(report: HostReport, problems: dict[str, None]) -> HostReport:
    if report.error:
        return report
    try:
        path = state_file(report.host)
        before = read(path)
        at = report.examined_at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if before and before.examined_at > at:
            raise StateUnusable(f"{report.host}: of {at}, older than the last run ({before.examined_at})")
        told, kept = compare(report, before, at, _boot_id(report))
        report = told
        _write(path, report.host, kept)
    except StateUnusable as error:
        problems[f"not compared with the run before: {error}"] = None
    except OSError as error:
        where = error.filename or "state"
        problems[f"nothing kept for the next run: {Path(where).parent}: {error.strerror}"] = None
    return report


def _boot_id(report: HostReport) -> str:
    boot = fact_of(report.bundle, Boot) if report.bundle else None
    return boot.id if boot else ""


def state_file(host: str) -> Path:
    """Return where a host's state is."""
    return state_folder() / "hosts" / f"{quote(host, safe='@')}.json"


def state_folder() -> Path:
    """Return where everything is kept; a relative XDG_STATE_HOME does not count (XDG base directories)."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        folder = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise StateUnusable(str(error)) from error
    return folder / "qwenhost"


def read(path: Path) -> Remembered | None:
    """Read a host's state, None when there is none. Raises StateUnusable for a file of another form."""
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateUnusable(f"{path.parent}: {error.strerror}") from error
    except ValueError as error:
        raise StateUnusable(f"{path}: no JSON; remove it to start anew") from error
    try:
        if raw["schema"] != SCHEMA:
            raise StateUnusable(f"{path}: schema {raw['schema']!r}, this version reads {SCHEMA}")
        return Remembered(str(raw["examined_at"]), tuple(Past(**item) for item in raw["alarms"]))
    except (KeyError, TypeError) as error:
        raise StateUnusable(f"{path}: not a state of qwenhost ({error}); remove it to start anew") from error


def _write(path: Path, host: str, kept: Remembered) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    document = {"schema": SCHEMA, "host": host, **asdict(kept)}
    write_whole(path, json.dumps(document, indent=1) + "\n", PRIVATE)
