"""Undo runs on hosts: what each found before it changed anything comes back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from qwenhost.records.errors import HostUnreachable
from qwenhost.records.host import Host
from qwenhost.transports.fleet import AT_ONCE
from qwenhost.workflows.controller import controller, dead

SECONDS = 600.0
"""Stopping a service waits for its requests; partitioning boards takes a minute."""

Act = Callable[..., Mapping[str, Any]]
"""Does a host-side act by name with a request, in check mode or not; raises HostUnreachable and OSError."""


@dataclass(frozen=True)
class Run:
    """A run that a host keeps the state before."""

    name: str
    at: str
    controller: str


@dataclass(frozen=True)
class Undone:
    """What came of one host: its runs, what changed as lines of a diff, or why nothing was done."""

    host: str
    runs: tuple[Run, ...] = ()
    difference: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""


def list_runs(hosts: Sequence[Host]) -> tuple[Undone, ...]:
    """Return the runs that each host can undo, the oldest first."""
    return _on_all(hosts, lambda host: Undone(host.name, runs=_runs(_act_on(host))))


def roll_back(hosts: Sequence[Host], to: str = "", check: bool = False) -> tuple[Undone, ...]:
    """Restore what the last run found on each host, or the run `to` and all later ones; `check` only tells."""
    return _on_all(hosts, lambda host: _roll_back(host.name, _act_on(host), to, check))


def _roll_back(host: str, act: Act, to: str, check: bool) -> Undone:
    request = {"to": to, "controller": controller(os.getpid())}
    answer = act("rollback", request, check)
    held = answer.get("held_by")
    if held and dead(held["controller"]):
        answer = act("rollback", {**request, "dead": held["controller"]}, check)
        held = answer.get("held_by")
    if held:
        told = f"another run holds this host: {held['run']} of {held['controller']}"
        return Undone(host, error=told, hint="wait until it has ended")
    lines = unified_diff(answer["before"], answer["after"], lineterm="", n=0)
    return Undone(host, difference=tuple(line for line in lines if not line.startswith(("---", "+++", "@@"))))


def _runs(act: Act) -> tuple[Run, ...]:
    return tuple(Run(row["run"], row["at"], row["controller"]) for row in act("runs", {})["runs"])


def _act_on(host: Host) -> Act:
    from qwenhost.transports import ssh  # Fabric costs 0.2 s

    return lambda name, request, check=False: ssh.act(host, name, request, SECONDS, check)


def _on_all(hosts: Sequence[Host], work: Callable[[Host], Undone]) -> tuple[Undone, ...]:
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return tuple(pool.map(lambda host: _told(host, work), hosts))


def _told(host: Host, work: Callable[[Host], Undone]) -> Undone:
    try:
        return work(host)
    except HostUnreachable as error:
        return Undone(host.name, error=str(error).removeprefix(f"{host.name}: "), hint=error.hint)
    except OSError as error:
        return Undone(host.name, error=str(error))
