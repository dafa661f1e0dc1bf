"""The unit that sets a host at each boot, and this program, which it runs."""

from __future__ import annotations

import hashlib
from typing import Any

from qwenhost.hands import own_files, systemd
from qwenhost.hands.answer import BadRequest, Refused, joined, outcome

PROGRAM, MODE = "usr/local/lib/qwenhost/hands.pyz", 0o755
PROPERTIES = ("UnitFileState", "ActiveState")
IN_FORCE, AWAY = ["enabled", "active"], ["", "inactive"]


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Have systemd run {"service"}, of {"files": {path: text}}, now and at each boot.

    With empty texts the unit is stopped and goes. Raises Refused.
    """
    service, files = str(request["service"]), request["files"]
    if all(files.values()):
        return _keep(service, files, check)
    if any(files.values()):
        raise BadRequest("{}: all of its files, or none".format(service))
    return _remove(service, files, check)


def _keep(service: str, files: dict[str, str], check: bool) -> dict[str, Any]:
    """Start the unit, too: that it can do its work is known now, not at the next boot."""
    state = _state(service)
    program, written = _install(check), own_files.run({"files": files}, check)
    if written["changed"] and not check:
        systemd.call("daemon-reload")
    if state not in ([], IN_FORCE) and not check:
        systemd.call("enable", "--now", service)
    return joined([program, written, outcome(_told(service, state), _told(service, IN_FORCE if state else []))])


def _remove(service: str, files: dict[str, str], check: bool) -> dict[str, Any]:
    state = _state(service)
    if state not in ([], AWAY) and not check:
        systemd.call("disable", "--now", service)
    removed = own_files.run({"files": files}, check)
    if removed["changed"] and not check:
        systemd.call("daemon-reload")
    return joined([removed, outcome(_told(service, state), [])])


def _state(service: str) -> list[str]:
    """Return what systemd says of the unit, in the order of PROPERTIES; nothing without systemd."""
    rows = systemd.call("show", "--property=" + ",".join(PROPERTIES), service).splitlines()
    told = dict(row.split("=", 1) for row in rows)
    return [told.get(name, "") for name in PROPERTIES] if told else []


def _told(service: str, state: list[str]) -> list[str]:
    return [] if state in ([], AWAY) else ["{}: {}".format(service, ", ".join(filter(None, state)))]


def _install(check: bool) -> dict[str, Any]:
    """Put the archive that runs now to where the unit looks for it."""
    archive = getattr(own_files.__loader__, "archive", None)
    if archive is None:
        raise Refused("only the packed program installs itself")
    with open(archive, "rb") as file:
        wanted = file.read()
    before, after = _program(own_files.contents(PROGRAM), own_files.mode_of(PROGRAM)), _program(wanted, MODE)
    if before != after and not check:
        own_files.put(PROGRAM, wanted, MODE)
    return outcome(before, after)


def _program(content: bytes | None, mode: int | None) -> list[str]:
    if content is None:
        return []
    return ["/{}: mode {:04o}, {}".format(PROGRAM, mode or 0, hashlib.sha256(content).hexdigest()[:12])]
