"""The state of what qwenhost owns on a host: its files byte by byte, live settings, running units, MIG layout."""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import os
import stat
from typing import Any, Sequence

from qwenhost.hands import governor, grub, hugepages, kernel, mig, owned, shm, swap, sysctl, systemd, thp
from qwenhost.hands.answer import Refused

DRIVER_SECONDS = 5

SECRET = "secret"
"""Marks a file whose content is not kept: a rollback leaves it, or removes it where it was not there."""


def take(keys: list[str]) -> dict[str, Any]:
    """Return the state, JSON-able: {"files", "sysctl" of `keys`, "thp", "governors", "shm", "swaps", "pools",
    "mig", "units" that run}.
    """
    return {
        "files": files(owned.PATHS),
        "sysctl": sysctl.current(keys),
        "thp": thp.mode(),
        "governors": governor.current(),
        "shm": shm.size(),
        "swaps": swap.current(),
        "pools": hugepages.current(),
        "mig": _mig(),
        "units": systemd.running(*owned.UNITS),
    }


def restore(state: dict[str, Any], running: list[str]) -> None:
    """Bring back a snapshot; what runs is stopped first. Raises Refused, with its units started again.

    Units that set the host once, at boot, stay as they are where they ran before, too: started again, they would
    undo what is restored here.
    """
    staying = {unit for unit in running if unit in state["units"] and unit.startswith(owned.ONCE)}
    _stop([unit for unit in running if unit not in staying])
    restore_files(state["files"], owned.PATHS)
    try:
        _restore_live(state)
    finally:
        _start([unit for unit in state["units"] if unit not in staying])


def files(patterns: Sequence[str]) -> dict[str, Any]:
    """Return the files and links that globs below the root name, with their contents, modes and owners."""
    return {path: _entry(path) for path in _paths(patterns)}


def restore_files(files: dict[str, Any], patterns: Sequence[str]) -> None:
    """Make the files that the globs name those of a snapshot; what was not there goes.

    GRUB's menu, which holds other systems and kernels as well, is made anew. Raises Refused.
    """
    arguments = _current(grub.OWN)
    for path in _paths(patterns):
        if path not in files:
            os.unlink(_real(path))
            _drop_empty(os.path.dirname(path))
    for path, entry in sorted(files.items()):
        if SECRET not in entry and _current(path) != entry:
            _put(_real(path), entry)
    if _current(grub.OWN) != arguments:
        grub.rewrite()


def _restore_live(state: dict[str, Any]) -> None:
    """Bring the live settings of a snapshot into force. Raises Refused."""
    sysctl.run({"values": state["sysctl"]})
    hugepages.run({"pools": state["pools"]})
    governor.restore(state.get("governors", {}))
    swap.restore(state.get("swaps", []))
    if state.get("shm"):
        shm.run({"size_bytes": state["shm"]})
    if state["thp"]:
        thp.run({"mode": state["thp"]})
    if state["mig"]:
        mig.run({"layout": state["mig"]})


def describe(state: dict[str, Any]) -> list[str]:
    """Return a snapshot as lines that can be compared."""
    return [
        *("file {} {}".format(path, _told(entry)) for path, entry in sorted(state["files"].items())),
        *("{} = {}".format(key, value) for key, value in sorted(state["sysctl"].items())),
        "transparent huge pages {}".format(state["thp"] or "not there"),
        *hugepages.lines(state["pools"]),
        *governor.lines(state.get("governors", {})),
        *swap.lines(state.get("swaps", [])),
        "/dev/shm: {} bytes".format(state.get("shm", 0)),
        *("gpu {gpu}: MIG {mig} {instances}".format(**board) for board in state["mig"]),
        *("unit {} runs".format(unit) for unit in state["units"]),
    ]


def _stop(units: list[str]) -> None:
    if units:
        systemd.call("stop", *units)


def _start(units: list[str]) -> None:
    """Start units, with the unit files as they are now."""
    systemd.call("daemon-reload")
    if units:
        systemd.call("start", "--no-block", *units)


def _paths(patterns: Sequence[str]) -> list[str]:
    """Return the owned files and links that are there, below the root."""
    root = kernel.path_of()
    found = set()
    for pattern in patterns:
        for path in glob.glob(os.path.join(glob.escape(root), pattern), recursive=True):
            if os.path.islink(path) or os.path.isfile(path):
                found.add(os.path.relpath(path, root))
    return sorted(found)


def _real(path: str) -> str:
    return kernel.path_of(path)


def _current(path: str) -> dict[str, Any] | None:
    return _entry(path) if os.path.lexists(_real(path)) else None


def _entry(path: str) -> dict[str, Any]:
    real = _real(path)
    if os.path.islink(real):
        return {"link": os.readlink(real)}
    told = os.stat(real)
    if path in owned.SECRETS:
        return {SECRET: True, "mode": stat.S_IMODE(told.st_mode)}
    with open(real, "rb") as file:
        content = base64.b64encode(file.read()).decode("ascii")
    return {"content": content, "mode": stat.S_IMODE(told.st_mode), "uid": told.st_uid, "gid": told.st_gid}


def _put(real: str, entry: dict[str, Any]) -> None:
    """Write a file beside its place and move it there, so that it is old or new, never half."""
    os.makedirs(os.path.dirname(real), exist_ok=True)
    beside = real + ".qwenhost-new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    if "link" in entry:
        os.symlink(entry["link"], beside)
    else:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64decode(entry["content"]))
        os.chown(beside, entry["uid"], entry["gid"])
        os.chmod(beside, entry["mode"])
    os.replace(beside, real)


def _drop_empty(folder: str) -> None:
    while folder.startswith(owned.FOLDERS):
        try:
            os.rmdir(_real(folder))
        except OSError:
            return
        folder = os.path.dirname(folder)


def _mig() -> list[dict[str, Any]]:
    """Return the layout of the boards; none where no driver answers, which then has none to lose."""
    try:
        return mig.current(timeout_seconds=DRIVER_SECONDS)
    except Refused:
        return []


def _told(entry: dict[str, Any]) -> str:
    if "link" in entry:
        return "-> {}".format(entry["link"])
    if SECRET in entry:
        return "{:04o}, whose content stays".format(entry["mode"])
    content = base64.b64decode(entry["content"])
    checksum = hashlib.sha256(content).hexdigest()
    return "{:04o} {} bytes {}".format(entry["mode"], len(content), checksum[:12])
