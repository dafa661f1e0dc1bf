"""Bundles that somebody recorded: a folder, file, archive, bug report or standard input, told by content.

Nothing is unpacked to disk, and names inside archives are labels only.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from qwenhost.facts.registry import sources
from qwenhost.records.bundle import Bundle, Capture, from_json
from qwenhost.records.errors import BadData, QwenhostError
from qwenhost.records.source import Source

LIMIT_FILE_BYTES = 64 * 1024 * 1024
"""One file, unpacked; a bug report of an eight-GPU host is below 10 MiB."""

LIMIT_TOTAL_BYTES = 256 * 1024 * 1024

LIMIT_FILES = 2000

_SECTION = re.compile(r"^_{44}\s*$", re.MULTILINE)
"""What nvidia-bug-report.sh prints between its sections."""

_OWN_BUNDLE = re.compile(r'\A\s*\{\s*"schema"\s*:\s*\d+\s*,\s*"host"\s*:.*"captures"\s*:', re.DOTALL)


@dataclass(frozen=True)
class Document:
    """A named piece of content."""

    name: str
    content: bytes


def read(path: str) -> Bundle:
    """Return the bundle at `path`; "-" is standard input.

    Raises QwenhostError when nothing can be read, BadData for a broken bundle of our own.
    """
    documents = [piece for document in _opened(path) for piece in _unpacked(document)]
    own = [document for document in documents if _OWN_BUNDLE.match(_text(document))]
    if own:
        return _own_bundle(own)
    captures: list[Capture] = []
    strangers: list[str] = []
    for document in documents:
        found = list(_captures(document))
        captures.extend(found)
        if not found:
            strangers.append(document.name)
    return Bundle(_host(path), tuple(captures), unrecognised=tuple(strangers))


def _own_bundle(documents: list[Document]) -> Bundle:
    if len(documents) > 1:
        names = ", ".join(document.name for document in documents)
        raise QwenhostError(f"several bundles in one place: {names}", hint="give one bundle at a time")
    return from_json(_text(documents[0]), documents[0].name)


def _opened(path: str) -> Iterator[Document]:
    """Yield the files at `path`, in the order of their names."""
    if path == "-":
        yield Document("standard input", _limited("standard input", sys.stdin.buffer))
        return
    place = Path(path)
    if not place.exists():
        raise QwenhostError(f"{path}: no such file or folder", hint="give a folder, file or archive of captures")
    files = sorted(item for item in place.rglob("*") if item.is_file()) if place.is_dir() else [place]
    if len(files) > LIMIT_FILES:
        raise QwenhostError(
            f"{path}: {len(files)} files, {LIMIT_FILES} at most", hint="give the folder of one host"
        )
    total = 0
    for item in files:
        total += item.stat().st_size
        if total > LIMIT_TOTAL_BYTES:
            raise _too_large(path, LIMIT_TOTAL_BYTES)
        name = str(item.relative_to(place)) if place.is_dir() else item.name
        with _openable(item) as stream:
            yield Document(name, _limited(name, stream))


def _openable(item: Path) -> IO[bytes]:
    try:
        return item.open("rb")
    except OSError as error:
        raise QwenhostError(f"{item}: {error.strerror}", hint="make it readable") from error


def _limited(name: str, stream: IO[bytes]) -> bytes:
    content = stream.read(LIMIT_FILE_BYTES + 1)
    if len(content) > LIMIT_FILE_BYTES:
        raise _too_large(name, LIMIT_FILE_BYTES)
    return content


def _too_large(name: str, limit: int) -> QwenhostError:
    return QwenhostError(f"{name}: larger than {limit >> 20} MiB", hint="leave out what is not about the host")


def _unpacked(document: Document, depth: int = 0) -> Iterator[Document]:
    """Yield the contents of archives and compressed files, others as they are; two layers at most."""
    inner = _inner(document) if depth < 2 else None
    if inner is None:
        yield document
        return
    total = 0
    for count, member in enumerate(inner):
        total += len(member.content)
        if total > LIMIT_TOTAL_BYTES or count >= LIMIT_FILES:
            raise _too_large(document.name, LIMIT_TOTAL_BYTES)
        yield from _unpacked(member, depth + 1)


def _inner(document: Document) -> Iterable[Document] | None:
    """Return what an archive or compressed file holds, None for anything else."""
    content = document.content
    try:
        if content[:2] == b"\x1f\x8b":
            return [Document(document.name.removesuffix(".gz"), _gunzipped(document))]
        if content[:4] == b"PK\x03\x04":
            return list(_zip_members(document))
        if content[257:262] == b"ustar":
            return list(_tar_members(document))
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise BadData(f"{document.name}: broken archive: {error}") from error
    return None


def _gunzipped(document: Document) -> bytes:
    """Return the content; a report that was cut short while it was written counts as far as it goes."""
    stream = zlib.decompressobj(wbits=31)
    content = stream.decompress(document.content, LIMIT_FILE_BYTES + 1)
    if len(content) > LIMIT_FILE_BYTES:
        raise _too_large(document.name, LIMIT_FILE_BYTES)
    if stream.unused_data[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=io.BytesIO(document.content)) as members:
            return _limited(document.name, cast(IO[bytes], members))
    return content


def _tar_members(document: Document) -> Iterator[Document]:
    with tarfile.open(fileobj=io.BytesIO(document.content), mode="r:") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is not None:
                yield Document(member.name, _limited(member.name, stream))


def _zip_members(document: Document) -> Iterator[Document]:
    with zipfile.ZipFile(io.BytesIO(document.content)) as archive:
        for info in archive.infolist():
            if not info.is_dir() and not info.flag_bits & 1:
                with archive.open(info) as stream:
                    yield Document(info.filename, _limited(info.filename, stream))


def _captures(document: Document) -> Iterator[Capture]:
    text = _text(document)
    pieces = _SECTION.split(text)
    if len(pieces) == 1:
        yield from _recognised(document.name, text)
        return
    for piece in pieces:
        label, body = _section(piece)
        yield from _recognised(f"{document.name}: {label}" if label else document.name, body)


def _section(piece: str) -> tuple[str, str]:
    """Return the title of a bug report's section (a path or a command line) and what stands under it."""
    lines = piece.strip("\n").splitlines()
    while lines and re.match(r"\*\*\* ls: |\s*$", lines[0]):
        del lines[0]
    title = lines[0].removeprefix("*** ").strip() if lines else ""
    rest = [line for line in lines[1:] if not line.startswith("*** ls: ")]
    return (title, "\n".join(rest) + "\n") if title.startswith("/") else ("", "\n".join(lines) + "\n")


def _recognised(origin: str, text: str) -> Iterator[Capture]:
    if "\0" in text:
        return
    for source in sources():
        if source.recognises(text):
            yield _capture(source, text, origin)


def _capture(source: Source, text: str, origin: str) -> Capture:
    return Capture(source.name, "ok", text, exit_code=0 if source.kind == "command" else None, origin=origin)


def _text(document: Document) -> str:
    encoding = "utf-16" if document.content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return document.content.decode(encoding, errors="replace").lstrip("\ufeff").replace("\r\n", "\n")


def _host(path: str) -> str:
    name = "standard input" if path == "-" else Path(path).resolve().name
    return re.sub(r"\.(tar|zip|tgz|gz|log|txt|json|xml)(\.gz)?$", "", name)
