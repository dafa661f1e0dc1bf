"""One fault's changes to a host, each noted with what was there before, so that it can be undone exactly."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from qwenhost.lab.simulator.guest import faultlog, state

Journal = dict[str, dict[str, Any]]


class Edit:
    """Changes the state keys `values` in place, files, links and the log of `host_root`, and notes each."""

    def __init__(self, host_root: Path, values: dict[str, str]) -> None:
        self.host_root, self.values = host_root, values
        self.home = state.folder(host_root)
        self.entry: dict[str, Any] = {
            "set": {},
            "before": {},
            "log": [],
            "files": {},
            "links": {},
            "moves": {},
        }

    def put(self, key: str, value: str) -> None:
        """Set a state key."""
        self.entry["before"].setdefault(key, self.values.get(key))
        self.entry["set"][key] = value
        self.values[key] = value

    def put_gpu(self, slot: int, **keys: str) -> None:
        """Set state keys of one GPU."""
        for key, value in keys.items():
            self.put(f"gpu{slot}.{key}", value)

    def log(self, *lines: str) -> None:
        """Add lines to the kernel log, stamped with the present."""
        seconds = faultlog.seconds_since_boot(self.values)
        self.entry["log"] += lines
        faultlog.append(list(lines), seconds, self.host_root)

    def write(self, path: Path, content: bytes) -> None:
        """Replace a file's content; its inode stays, so that a bind of it stays right."""
        name = str(path.resolve().relative_to(self.home.resolve()))
        self.entry["files"].setdefault(name, base64.b64encode(path.read_bytes()).decode("ascii"))
        path.write_bytes(content)

    def unlink(self, path: Path) -> None:
        """Remove a symbolic link."""
        self.entry["links"][str(path.relative_to(self.home))] = str(path.readlink())
        path.unlink()

    def set_aside(self, path: Path) -> None:
        """Move a folder out of sight."""
        name = str(path.relative_to(self.home))
        aside = self.home / "aside" / name.replace("/", "_")
        aside.parent.mkdir(exist_ok=True)
        path.rename(aside)
        self.entry["moves"][name] = str(aside.relative_to(self.home))


def undo(host_root: Path, values: dict[str, str], entry: dict[str, Any]) -> None:
    """Put back what one journal entry noted."""
    home = state.folder(host_root)
    for key, before in entry["before"].items():
        if before is None:
            values.pop(key, None)
        else:
            values[key] = before
    for name, content in entry["files"].items():
        (home / name).write_bytes(base64.b64decode(content))
    for name, target in entry["links"].items():
        if not (home / name).is_symlink():
            (home / name).symlink_to(target)
    for name, aside in entry["moves"].items():
        (home / aside).rename(home / name)
    _unlog(home / "kmsg", entry["log"])


def _unlog(path: Path, lines: list[str]) -> None:
    """Drop the fault's lines whatever their stamp: a reboot has logged them anew."""
    present = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in present if line.partition("] ")[2] not in lines]
    path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def save(host_root: Path, journal: Journal) -> None:
    """Replace the journal; an empty one leaves no file."""
    path = state.folder(host_root) / "faults.json"
    if not journal:
        path.unlink(missing_ok=True)
        return
    beside = path.with_name(f"faults.json.{os.getpid()}")
    beside.write_text(json.dumps(journal, indent=1), encoding="utf-8")
    beside.replace(path)
