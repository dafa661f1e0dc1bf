"""Bundles that a run and the play that it starts hand each other, as files of a private folder.

So no host is asked twice for the same. A play without such a folder asks its hosts itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from qwenhost.records.bundle import Bundle, from_json

FOLDER = "QWENHOST_BUNDLES"
"""Environment variable of the play: where the bundles are."""

GIVEN, TAKEN = "given", "taken"
"""Suffixes: what the run gives the play, once, and what the play took from the host last."""


def give(folder: Path, bundles: Iterable[Bundle]) -> dict[str, str]:
    """Make the folder with what the play is given; return the environment that tells it."""
    folder.mkdir(mode=0o700)
    for bundle in bundles:
        _file(folder, bundle.host, GIVEN).write_text(bundle.to_json(), encoding="utf-8")
    return {FOLDER: str(folder)}


def receive(host: str) -> Bundle | None:
    """Return what the play was given of a host. It is gone then: after the first change it no longer holds."""
    folder = os.environ.get(FOLDER)
    file = _file(Path(folder), host, GIVEN) if folder else None
    if file is None or not file.exists():
        return None
    text = file.read_text(encoding="utf-8")
    file.unlink()
    return from_json(text, host)


def note(bundle: Bundle) -> None:
    """Keep what the play took from a host; the last one stays."""
    if folder := os.environ.get(FOLDER):
        _file(Path(folder), bundle.host, TAKEN).write_text(bundle.to_json(), encoding="utf-8")


def taken(folder: Path, hosts: Iterable[str]) -> Iterator[Bundle]:
    """Yield what the play took last from each of these hosts, where it took anything."""
    files = ((host, _file(folder, host, TAKEN)) for host in hosts)
    yield from (from_json(file.read_text(encoding="utf-8"), host) for host, file in files if file.exists())


def _file(folder: Path, host: str, suffix: str) -> Path:
    return folder / f"{quote(host, safe='')}.{suffix}"
