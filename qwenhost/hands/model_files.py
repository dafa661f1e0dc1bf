"""A model's files on this host: whole by their own headers, and the very bytes that were promised.

The promise is a file SHA256SUMS beside them, else what was there when they were verified first. A file whose size
and time are those of the last look is not read again.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict

from qwenhost.hands import kernel, model_sums, weights
from qwenhost.hands.answer import BadRequest, Refused, outcome, why

SCHEMA = 1
RECORDS = "var/lib/qwenhost/models"
AT_ONCE = 8
"""Files read side by side: one thread hashes about 1 GB/s, an NVMe drive reads more."""

TOLD_FAULTS = 3

Entries = Dict[str, Dict[str, Any]]
"""File -> {"bytes", "mtime_ns", "sha256"}."""


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Verify the model in {"path"} and keep what was seen. Raises Refused, naming each file that is wrong."""
    path = str(request["path"])
    if not path.startswith("/"):
        raise BadRequest("path is an absolute path")
    kept = _kept(path)
    found = verified(kernel.path_of(path.lstrip("/")), kept, record(path))
    if found != kept and not check:
        _keep(path, found)
    return outcome(_lines(kept), _lines(found))


def verified(folder: str, kept: Entries, record_name: str = "") -> Entries:
    """Return what a folder's files are; `kept` is what they were at the last look. Raises Refused."""
    sizes, sums = _sizes(folder), model_sums.promised(folder)
    origin = model_sums.SUMS if sums else record_name
    gone = ["{}: known from {}, not there".format(name, origin) for name in sorted({*(sums or kept)} - {*sizes})]
    _refuse(folder, [*weights.faults(folder, sizes), *gone])
    found = _entries(folder, sorted(sizes), kept)
    _refuse(folder, [line for name in sorted(found) for line in _other(name, found[name], sums, kept, origin)])
    return found


def _sizes(folder: str) -> dict[str, int]:
    """Return the sizes of the files of a model in bytes; links, such as the hub's cache has, are followed."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: entry.stat().st_size
                for entry in entries
                if model_sums.belongs(entry.name) and entry.is_file()
            }
    except OSError as error:
        raise Refused("{}: {}".format(folder, why(error))) from error


def _entries(folder: str, names: list[str], kept: Entries) -> Entries:
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return dict(pool.map(lambda name: (name, _entry(folder, name, kept.get(name, {}))), names))


def _entry(folder: str, name: str, kept: dict[str, Any]) -> dict[str, Any]:
    path = os.path.join(folder, name)
    told = os.stat(path)
    if (told.st_size, told.st_mtime_ns) == (kept.get("bytes"), kept.get("mtime_ns")):
        return kept
    return {"bytes": told.st_size, "mtime_ns": told.st_mtime_ns, "sha256": model_sums.sha256(path)}


def _other(name: str, entry: dict[str, Any], sums: dict[str, str], kept: Entries, origin: str) -> list[str]:
    """Return a line where a file is another one than was promised."""
    wanted = sums.get(name) if sums else kept.get(name, {}).get("sha256")
    if wanted in (None, entry["sha256"]):
        return []
    return ["{}: sha256 {:.12}..., not the {:.12}... of {}".format(name, entry["sha256"], wanted, origin)]


def _refuse(folder: str, faults: list[str]) -> None:
    if faults:
        more = "; and {} more".format(len(faults) - TOLD_FAULTS) if len(faults) > TOLD_FAULTS else ""
        raise Refused("{}: {}{}".format(folder, "; ".join(faults[:TOLD_FAULTS]), more))


def record(path: str) -> str:
    """Return where the last look at a model is kept."""
    return kernel.path_of(RECORDS, path.strip("/").replace("/", "-") + ".json")


def _kept(path: str) -> Entries:
    """Return the last look; none where there is none of this very path."""
    try:
        with open(record(path), encoding="utf-8") as file:
            known = json.load(file)
        return dict(known["files"]) if (known["schema"], known["path"]) == (SCHEMA, path) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _keep(path: str, files: Entries) -> None:
    """Write the look whole; everybody may read it."""
    place = record(path)
    os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open(place + ".new", "w", encoding="utf-8") as file:
        json.dump({"schema": SCHEMA, "path": path, "at": at, "files": files}, file)
    os.chmod(place + ".new", 0o644)
    os.replace(place + ".new", place)


def _lines(files: Entries) -> list[str]:
    return ["{} {bytes} bytes sha256 {sha256}".format(name, **entry) for name, entry in sorted(files.items())]
