"""The served model's files as they are now, and as they were when they were verified."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from qwenhost.facts.keyed import listing, matching
from qwenhost.facts.registry import ANY, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source, command, tree

FILES = Source("model-files", "command")
"""Asked for the declared model, as model-files:PATH."""

RECORDS = tree("model-records", "/var/lib/qwenhost/models/*.json", "/proc/version")
"""/proc/version is there on every host: with it alone, no model was verified."""

LINE = re.compile(r"(?P<bytes>\d+) (?P<seconds>\d+)\.(?P<fraction>\d+) (?P<name>.+)")


def files_source(path: str) -> Source:
    """Return what to ask of a model's folder: size, time of the last change and name of each file in it."""
    name = f"{FILES.name}:{path}"
    return command(name, "find", "-L", path, "-maxdepth", "1", "-type", "f", "-printf", r"%s %T@ %f\n")


@dataclass(frozen=True)
class FileState:
    """Size in bytes and time of the last change in nanoseconds since 1970."""

    bytes: int
    mtime_ns: int

    @property
    def changed_at(self) -> str:
        """The time as people read it, UTC."""
        return f"{datetime.fromtimestamp(self.mtime_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class ModelFiles:
    """Folder -> its files by name; None where there is no such folder."""

    folders: Mapping[str, Mapping[str, FileState] | None]

    def merge(self, other: ModelFiles) -> ModelFiles:
        """Add the other folders."""
        return ModelFiles({**other.folders, **self.folders})


@dataclass(frozen=True)
class VerifiedModels:
    """Folder -> its files when they were verified by their sums, and when that was."""

    folders: Mapping[str, Mapping[str, FileState]]
    at: Mapping[str, str]


@parses(FILES, accepts=ANY)
def files(capture: Capture) -> ModelFiles:
    """Parse the lines of `find`; a folder that is not there was looked for, and that is an answer."""
    folder = capture.source.partition(":")[2]
    if "No such file or directory" in capture.error or "Not a directory" in capture.error:
        return ModelFiles({folder: None})
    if capture.status != "ok" or not folder:
        raise Unparsable(capture.error or capture.status)
    return ModelFiles({folder: dict(_line(line) for line in capture.text.splitlines())})


def _line(line: str) -> tuple[str, FileState]:
    found = LINE.fullmatch(line)
    if found is None:
        raise Unparsable(f"no line of find: {line[:80]!r}")
    nanoseconds = int(found["fraction"][:9].ljust(9, "0"))
    return found["name"], FileState(int(found["bytes"]), int(found["seconds"]) * 10**9 + nanoseconds)


@parses(RECORDS)
def verified(capture: Capture) -> VerifiedModels:
    """Parse the records that the role keeps; one of another form verifies nothing."""
    listing(capture, "/proc/version")
    looks = [
        look for _, text in matching(capture, r"/var/lib/qwenhost/models/[^/]+\.json") if (look := _look(text))
    ]
    return VerifiedModels({path: kept for path, _, kept in looks}, {path: at for path, at, _ in looks})


def _look(text: str) -> tuple[str, str, Mapping[str, FileState]] | None:
    try:
        raw = json.loads(text)
        kept = {
            name: FileState(int(entry["bytes"]), int(entry["mtime_ns"])) for name, entry in raw["files"].items()
        }
        return (str(raw["path"]), str(raw["at"]), kept) if raw["schema"] == 1 else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
