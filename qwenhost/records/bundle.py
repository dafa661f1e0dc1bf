"""What the probe brought back: raw answers, one capture per source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from qwenhost.records.errors import BadData

SCHEMA = 1

Status = Literal["ok", "missing", "denied", "timeout", "failed"]


@dataclass(frozen=True)
class Capture:
    """One answer. `text` is what was read (also of a failed command); `error` says why there is none."""

    source: str
    status: Status
    text: str = ""
    exit_code: int | None = None
    error: str = ""
    seconds: float = 0.0
    truncated: bool = False
    origin: str = ""
    """File that a recorded capture came from; empty when live."""


@dataclass(frozen=True)
class Bundle:
    """All captures of one host. `captured_at` is ISO 8601 UTC, empty where nobody noted it.

    A recorded bundle may hold several captures of one source (two boots, two files)."""

    host: str
    captures: tuple[Capture, ...]
    captured_at: str = ""
    unrecognised: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def facts(self) -> dict[type[Any], Any]:
        """What was parsed of it so far, by fact; a bundle never changes, so each fact is parsed once."""
        return {}

    def of(self, source: str) -> tuple[Capture, ...]:
        """Return the captures of one source, in the order in which they were found.

        A source that is read at several places, such as one port each, has captures named NAME:PLACE.
        """
        return tuple(capture for capture in self.captures if capture.source.partition(":")[0] == source)

    def to_json(self) -> str:
        """Return the versioned JSON form."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)


def from_json(text: str, where: str) -> Bundle:
    """Read a bundle; `where` names it in errors. Raises BadData."""
    try:
        raw: dict[str, Any] = json.loads(text)
        if raw.get("schema") != SCHEMA:
            raise BadData(f"{where}: bundle schema {raw.get('schema')!r}, this version reads {SCHEMA}")
        captures = tuple(Capture(**item) for item in _items(raw["captures"]))
        return Bundle(
            host=str(raw["host"]),
            captures=captures,
            captured_at=str(raw.get("captured_at", "")),
            unrecognised=tuple(raw.get("unrecognised", ())),
            notes=dict(raw.get("notes", {})),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadData(f"{where}: not a qwenhost bundle: {error}") from error


def _items(captures: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    return (dict(item) for item in captures)
