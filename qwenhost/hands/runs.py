"""Runs on this host: one at a time, and each with what it found before it changed anything.

A run holds a lock from `begin` to `end`. The lock of a killed run is taken over at once by whoever knows that
it is dead, by anybody else after LEASE_SECONDS.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any

from qwenhost.hands import kernel, snapshot
from qwenhost.hands.answer import BadRequest, Refused, outcome

LEASE_SECONDS = 3600
LOCK = "run/qwenhost/lock"
"""Not over a reboot: nothing runs any more after one."""

RUNS = "var/lib/qwenhost/runs"
KEPT_RUNS = 20
SCHEMA = 1
ROLLBACK = "rollback"


def begin(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Lock the host for {"run", "controller", "dead": holder, "sysctl": [keys]} and keep its state.

    The answer has {"held_by": {"run", "controller", "since"}} where another run holds the host; nothing is
    done then. `dead` names a holder that the controller knows to be gone.
    """
    run = _name(request["run"])
    held = _lock(run, request["controller"], str(request.get("dead", "")), check)
    if held:
        return {**outcome([], []), "held_by": held}
    if not check and not os.path.exists(_path(run)):
        state = snapshot.take([str(key) for key in request.get("sysctl", [])])
        heading = {"schema": SCHEMA, "run": run, "at": _now(), "controller": request["controller"]}
        _write(_path(run), {**heading, **state})
        _forget(_names()[:-KEPT_RUNS])
    return outcome([], [])


def end(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Give the host free again, if {"run"} holds it."""
    held = _held()
    if held and held["run"] == request["run"] and not check:
        os.unlink(kernel.path_of(LOCK))
    return outcome([], [])


def runs(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Return {"runs": [{"run", "at", "controller"}]} that can be undone, the oldest first."""
    kept = [_read(_path(name[:-5])) for name in kernel.names(kernel.path_of(RUNS)) if name.endswith(".json")]
    told = sorted(
        ({key: run[key] for key in ("run", "at", "controller")} for run in kept), key=lambda run: run["at"]
    )
    return {"changed": False, "runs": told}


def rollback(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Restore what {"to"} (a run; empty: the last one) and all later runs found. Raises Refused."""
    undone = _undone(request.get("to", ""))
    if not undone:
        return outcome([], [])
    kept = _read(_path(undone[0]))
    now = snapshot.take(sorted(kept["sysctl"]))
    before, after = snapshot.describe(now), snapshot.describe(kept)
    if check:
        return outcome(before, after)
    held = _lock(ROLLBACK, request["controller"], str(request.get("dead", "")))
    if held:
        return {**outcome([], []), "held_by": held}
    try:
        snapshot.restore(kept, now["units"])
        _forget(undone)
    finally:
        end({"run": ROLLBACK})
    return outcome(before, after)


def _undone(to: str) -> list[str]:
    """Return the runs that go, the oldest first."""
    names = _names()
    if to and to not in names:
        raise Refused("no run {} is kept on this host (there are: {})".format(to, ", ".join(names) or "none"))
    return names[names.index(to) :] if to else names[-1:]


def _names() -> list[str]:
    """Return the runs that are kept, the oldest first."""
    return [run["run"] for run in runs({})["runs"]]


def _forget(names: list[str]) -> None:
    for run in names:
        os.unlink(_path(run))


def _lock(run: str, controller: str, dead: str, check: bool = False) -> dict[str, Any] | None:
    """Take the lock; return who has it instead. Its own lock, a dead one's and an old one are taken over."""
    alive, path = holder(), kernel.path_of(LOCK)
    if alive and alive["controller"] not in (controller, dead):
        return alive
    if check:
        return None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if _held():
        os.unlink(path)
    return None if _created(path, {"run": run, "controller": controller, "since": time.time()}) else _held()


def _created(path: str, content: dict[str, Any]) -> bool:
    """Write a file whole; false when another was there first."""
    beside = "{}.{}".format(path, os.getpid())
    _write(beside, content)
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(beside)
    return True


def holder() -> dict[str, Any] | None:
    """Return the run that holds the host; a lock that nobody has renewed for long holds nothing."""
    held = _held()
    return held if held and time.time() - held["since"] < LEASE_SECONDS else None


def _held() -> dict[str, Any] | None:
    """Return who holds the host; a lock that nobody can read is as old as can be."""
    if not os.path.lexists(kernel.path_of(LOCK)):
        return None
    try:
        held = _read(kernel.path_of(LOCK))
    except Refused:
        held = {}
    return {"run": "", "controller": "", "since": 0.0, **held}


def _name(run: Any) -> str:
    if not isinstance(run, str) or not run.replace("-", "").replace("_", "").isalnum():
        raise BadRequest("a run is named by letters, digits, - and _, not {!r}".format(run))
    return run


def _path(run: str) -> str:
    return kernel.path_of(RUNS, _name(run) + ".json")


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError) as error:
        raise Refused("{} cannot be read: {}".format(path, error)) from error


def _write(path: str, content: dict[str, Any]) -> None:
    """Write a file that only root reads, whole or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    beside = path + ".new"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
