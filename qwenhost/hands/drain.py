"""Services that hold a GPU: stopped while it is partitioned, and started again, after an interruption too."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from typing import Any, Iterator, NamedTuple

from qwenhost.hands import kernel, systemd
from qwenhost.hands.answer import BadRequest, Refused

RECORD = "run/qwenhost/drained.json"
"""Units that are stopped and have to run again. Not over a reboot, which starts what is to run."""


class Service(NamedTuple):
    """A unit pattern; `waits`: its start is waited for, so that a failure is told here."""

    unit: str
    waits: bool


def read_services(request: dict[str, Any]) -> list[Service]:
    """Return {"services": [{"unit", "waits"}]}, in the order in which they are stopped. Raises BadRequest."""
    services = [Service(entry["unit"], entry.get("waits", True)) for entry in request.get("services") or ()]
    if not all(isinstance(one.unit, str) and one.unit.endswith((".service", ".path")) for one in services):
        raise BadRequest("a service is named as systemd does, such as nvidia-dcgm.service")
    return services


def running(services: list[Service]) -> list[str]:
    """Return the units that run and are known to hold GPUs, in the order in which they are stopped."""
    return [unit for one in services for unit in systemd.running(one.unit)]


def left() -> list[str]:
    """Return the units that an interrupted run has stopped. Raises Refused."""
    try:
        with open(kernel.path_of(RECORD), encoding="utf-8") as file:
            return [str(unit) for unit in json.load(file)["units"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused("/{} cannot be read: {}".format(RECORD, error)) from error


def lines(units: list[str]) -> tuple[list[str], list[str]]:
    """Return what is told of the units that are stopped, and of those left so: before and after."""
    waiting = [unit for unit in left() if unit not in units]
    before = ["{} runs".format(unit) for unit in units]
    after = ["{} runs again, stopped meanwhile".format(unit) for unit in units]
    since = ["{} is stopped since an interrupted run".format(unit) for unit in waiting]
    return before + since, after + ["{} runs".format(unit) for unit in waiting]


@contextmanager
def stopped(units: list[str], services: list[Service]) -> Iterator[None]:
    """Keep these units stopped, then start them and those that an interrupted run left. Raises Refused."""
    stopping = [*units, *(unit for unit in left() if unit not in units)]
    told = []
    try:
        _note(stopping)
        for unit in units:
            systemd.call("stop", unit)
        yield
    except Refused as error:
        told.append(str(error))
    finally:
        told += _start(stopping, services)
    if told:
        raise Refused("; ".join(told))


def refresh(units: list[str]) -> None:
    """Restart those of the units that are installed. Raises Refused."""
    for unit in units:
        if systemd.call("show", "-p", "LoadState", "--value", unit).strip() == "loaded":
            systemd.call("restart", unit)


def _start(units: list[str], services: list[Service]) -> list[str]:
    """Start units, the last that was stopped first; note and return what does not start."""
    waited = [unit for unit in units if any(one.waits and fnmatch(unit, one.unit) for one in services)]
    failed = {}
    for unit in reversed(units):
        try:
            systemd.call("start", *([] if unit in waited else ["--no-block"]), unit)
        except Refused as error:
            failed[unit] = "{} does not start again: {}".format(unit, error)
    _note(list(failed))
    return list(failed.values())


def _note(units: list[str]) -> None:
    path = kernel.path_of(RECORD)
    if units:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"units": units}, file)
        os.replace(path + ".new", path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)
