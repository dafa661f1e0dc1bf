"""Files, folders, pipes and archives as plain texts. Links are not followed out of a folder."""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qwenhost.records.errors import BadData, QwenhostError
from qwenhost.transports.excerpts import Excerpt, Read, excerpts
from qwenhost.transports.unpacking import BROKEN, Ledger, Stream, members, printable

LIMIT_LAYERS = 6
"""An archive in an archive: .tar.xz with .tar.gz with .log.gz is five."""


@dataclass(frozen=True)
class Document:
    """A named text, or one section of it."""

    name: str
    excerpt: Excerpt
    section: bool = False


def documents(path: str, ledger: Ledger) -> Iterator[Document]:
    """Yield all texts at `path`; "-" is standard input. Raises QwenhostError where nothing can be read."""
    if path == "-":
        yield from _unwrapped("standard input", Stream(ledger.counted(sys.stdin.buffer.read)), ledger)
        return
    place = Path(path)
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        for name, file in _files(place, ledger):
            yield from _guarded(name, _opened(file, name, ledger), ledger)
    elif stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        yield from _opened(place, place.name, ledger)
    else:
        raise QwenhostError(f"{path}: neither file, folder nor pipe", hint="give what somebody recorded")


def _mode(path: str) -> int:
    try:
        return Path(path).stat().st_mode
    except FileNotFoundError as error:
        raise QwenhostError(
            f"{path}: no such file or folder", hint="give a folder, file or archive of captures"
        ) from error
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}", hint="make it readable") from error


def _files(place: Path, ledger: Ledger) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder by name; what is neither file nor folder is left out."""
    home = place.resolve()
    for folder, folders, names in os.walk(place, onerror=lambda error: _unreadable(place, error, ledger)):
        folders.sort()
        for name in [*(name for name in folders if Path(folder, name).is_symlink()), *sorted(names)]:
            file = Path(folder, name)
            label = str(file.relative_to(place))
            if not file.is_file():
                ledger.leave(label, "link to a folder" if file.is_dir() else "no file")
            elif file.is_symlink() and not file.resolve().is_relative_to(home):
                ledger.leave(label, "link out of the folder")
            elif ledger.takes(label):
                yield label, file
            else:
                return


def _unreadable(place: Path, error: OSError, ledger: Ledger) -> None:
    if Path(error.filename) == place:
        raise QwenhostError(f"{place}: {error.strerror}", hint="make it readable") from error
    ledger.leave(os.path.relpath(error.filename, place), error.strerror or "not readable")


def _opened(file: Path, name: str, ledger: Ledger) -> Iterator[Document]:
    try:
        stream = file.open("rb")
    except OSError as error:
        raise QwenhostError(f"{file}: {error.strerror}", hint="make it readable") from error
    with stream:
        whole = stream if stream.seekable() else None
        yield from _unwrapped(name, Stream(ledger.counted(stream.read)), ledger, whole=whole)


def _guarded(name: str, found: Iterator[Document], ledger: Ledger) -> Iterator[Document]:
    """Pass on the texts of one file among others; one that is broken is left out."""
    try:
        yield from found
    except QwenhostError as error:
        ledger.leave(name, str(error).removeprefix(f"{printable(name)}: "))


def _unwrapped(
    name: str, stream: Stream, ledger: Ledger, layers: int = 0, whole: IO[bytes] | None = None
) -> Iterator[Document]:
    """Yield the texts in a stream: it is a text, compressed, or an archive. `whole` is the same, seekable."""
    start = stream.peek(512)
    inner = members(name, start, stream, ledger, whole)
    if inner is None:
        for excerpt, section in excerpts(_as_utf8(stream)):
            yield Document(printable(name), excerpt, section)
    elif layers >= LIMIT_LAYERS:
        ledger.leave(name, f"archives within archives: {LIMIT_LAYERS} layers at most")
    else:
        yield from _members(name, inner, ledger, layers)


def _members(name: str, inner: Iterator[tuple[str, Stream]], ledger: Ledger, layers: int) -> Iterator[Document]:
    seen = 0
    try:
        for member, stream in inner:
            seen += 1
            yield from _guarded(member, _unwrapped(member, stream, ledger, layers + 1), ledger)
    except BROKEN as error:
        if not seen:
            raise BadData(f"{printable(name)}: broken archive: {error}") from error
        ledger.notes.append(f"{printable(name)}: read up to where it is broken: {error}")


def _as_utf8(stream: Stream) -> Read:
    """Return a read function that gives UTF-16 with its mark as UTF-8."""
    if stream.peek(2) not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return stream.read
    decoder = codecs.getincrementaldecoder("utf-16")("replace")

    def read(size: int) -> bytes:
        chunk = stream.read(size)
        text = decoder.decode(chunk, not chunk).encode("utf-8", "replace")
        return text or (read(size) if chunk else b"")

    return read
