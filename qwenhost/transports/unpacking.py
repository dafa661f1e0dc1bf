"""Layers around a text: compression and archives, whatever harm they mean.

Nothing is unpacked to disk, and names inside archives are labels only.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, cast

from qwenhost.transports.excerpts import CHUNK_BYTES, MIB, Read

LIMIT_FILES = 20_000

LIMIT_READ_BYTES = 2048 * MIB
"""Everything together, unpacked: what a bomb may cost is some seconds."""

LIMIT_NESTED_ZIP_BYTES = 64 * MIB
"""A zip file is read from its end, so one that comes through a pipe or out of an archive has to be held."""

LIMIT_DIRECTORY_BYTES = 8 * MIB
"""A zip file's list of its members."""

LIMIT_TAR_HEADER_BYTES = MIB

TAR_STEP_BYTES = 8192

LIMIT_XZ_BYTES = 256 * MIB
"""Memory of the decompressor; `xz -9` needs 65 MiB."""

ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)

BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(ValueError, OverflowError, NotImplementedError, struct.error),
)
"""What the standard library raises for archives that are cut, damaged or made up."""


@dataclass
class Ledger:
    """What may still be read, and what was left out: "NAME (why)"."""

    files: int = LIMIT_FILES
    unread_bytes: int = LIMIT_READ_BYTES
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def leave(self, name: str, why: str) -> None:
        """Note a file that is not read."""
        self.left_out.append(f"{printable(name)} ({why})")

    def takes(self, name: str) -> bool:
        """Count a file; false where it, and so all that follow, is too much."""
        self.files -= 1
        if self.files >= 0 and self.unread_bytes > 0:
            return True
        self.leave(name, f"and all after it: {LIMIT_FILES} files and {LIMIT_READ_BYTES // MIB} MiB at most")
        return False

    def counted(self, read: Read) -> Read:
        """Return `read` with an end where all that may be read was read."""

        def read_on(size: int) -> bytes:
            if self.unread_bytes <= 0:
                return b""
            chunk = read(min(size, self.unread_bytes))
            self.unread_bytes -= len(chunk)
            if self.unread_bytes <= 0:
                self.notes.append(f"reading ended after {LIMIT_READ_BYTES // MIB} MiB, unpacked")
            return chunk

        return read_on


class Stream:
    """Bytes that are read once, and may be looked at ahead."""

    def __init__(self, read: Read, ahead: bytes = b"") -> None:
        self._read = read
        self._ahead = ahead

    def peek(self, size: int) -> bytes:
        """Return the next bytes and leave them there; fewer only at the end."""
        while len(self._ahead) < size and (chunk := self._read(CHUNK_BYTES)):
            self._ahead += chunk
        return self._ahead[:size]

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Return some of the next bytes, none at the end."""
        if not self._ahead:
            return self._read(size)
        chunk, self._ahead = self._ahead[:size], self._ahead[size:]
        return chunk


def members(
    name: str, start: bytes, stream: Stream, ledger: Ledger, whole: IO[bytes] | None
) -> Iterator[tuple[str, Stream]] | None:
    """Return the members of an archive, or the one in a compressed file; None for anything else."""
    if start[:2] == b"\x1f\x8b":
        packed = gzip.GzipFile(fileobj=cast(Any, stream))
        return _unpacked(name, ".gz", packed.read1, ledger)
    if start[:3] == b"BZh":
        return _unpacked(name, ".bz2", _inflated(stream, bz2.BZ2Decompressor), ledger)
    if start[:6] == b"\xfd7zXZ\x00":
        return _unpacked(name, ".xz", _inflated(stream, _xz), ledger)
    if start[:4] == b"PK\x03\x04":
        return _zip_members(stream, ledger, whole)
    if start[257:262] == b"ustar":
        return _tar_members(stream, ledger)
    return None


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=LIMIT_XZ_BYTES)


def _unpacked(name: str, ending: str, read: Read, ledger: Ledger) -> Iterator[tuple[str, Stream]]:
    """Yield the content of a compressed file."""
    read = ledger.counted(read)
    first = read(CHUNK_BYTES)
    yield name.removesuffix(ending), Stream(_as_far_as_it_goes(name, read, ledger), first)


def _as_far_as_it_goes(name: str, read: Read, ledger: Ledger) -> Read:
    """Return `read` with an end where the content is cut or broken; what stands before it counts."""

    def read_on(size: int) -> bytes:
        try:
            return read(size)
        except BROKEN as error:
            ledger.notes.append(f"{printable(name)}: read up to where it is broken: {error}")
            return b""

    return read_on


def _inflated(stream: Stream, make: Callable[[], Any]) -> Read:
    """Return a read function over the decompressed content, of one compressed stream or several in a row."""
    engine = make()

    def read(size: int) -> bytes:
        nonlocal engine
        while True:
            if engine.eof:
                more = engine.unused_data or stream.read()
                if not more.strip(b"\0"):
                    return b""
                engine = make()
            else:
                more = stream.read() if engine.needs_input else b""
                if engine.needs_input and not more:
                    raise EOFError("the compressed file ends early")
            if content := engine.decompress(more, size):
                return cast(bytes, content)

    return read


class _Member(tarfile.TarInfo):
    """A member whose headers take bounded memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        """Read a header block; refuse those that would have the library collect more of them."""
        member = super().frombuf(buf, encoding, errors)
        chained = member.type == tarfile.GNUTYPE_SPARSE and buf[482]
        if chained or (member.type in _EXTENDED and member.size > LIMIT_TAR_HEADER_BYTES):
            raise tarfile.ReadError("a member's header is too large")
        return member


_EXTENDED = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


def _tar_members(stream: Stream, ledger: Ledger) -> Iterator[tuple[str, Stream]]:
    with tarfile.open(fileobj=cast(Any, stream), mode="r|", tarinfo=_Member) as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # the library would keep them all
            if member.isdir():
                continue
            if not ledger.takes(member.name):
                return
            content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
            if content is None:
                ledger.leave(member.name, "link, device or sparse file")
            else:
                yield member.name, Stream(_as_far_as_it_goes(member.name, _in_blocks(content), ledger))


def _in_blocks(content: IO[bytes]) -> Read:
    """Return a read function of small steps: of a step that the archive does not have whole, nothing comes."""
    return lambda size: content.read(min(size, TAR_STEP_BYTES))


def _zip_members(stream: Stream, ledger: Ledger, whole: IO[bytes] | None) -> Iterator[tuple[str, Stream]]:
    file = whole or _held(stream)
    _refuse_long_list(file)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            if not ledger.takes(member.filename):
                return
            if member.flag_bits & 1 or member.compress_type not in ZIP_METHODS:
                how = "encrypted" if member.flag_bits & 1 else f"compressed by method {member.compress_type}"
                ledger.leave(member.filename, how)
                continue
            with archive.open(member) as content:
                read = ledger.counted(content.read)
                yield member.filename, Stream(_as_far_as_it_goes(member.filename, read, ledger))


def _refuse_long_list(file: IO[bytes]) -> None:
    """Look at the end record before the library reads the whole list of members into memory."""
    file.seek(max(0, file.seek(0, io.SEEK_END) - 66_000))
    end = file.read()
    place = end.rfind(b"PK\x05\x06")
    size = int.from_bytes(end[place + 12 : place + 16], "little") if place >= 0 else 0
    if size > LIMIT_DIRECTORY_BYTES or b"PK\x06\x07" in end[max(0, place - 20) : max(0, place)]:
        raise zipfile.BadZipFile("its list of members is too long")
    file.seek(0)


def _held(stream: Stream) -> IO[bytes]:
    content = bytearray()
    while len(content) <= LIMIT_NESTED_ZIP_BYTES and (chunk := stream.read()):
        content += chunk
    if len(content) > LIMIT_NESTED_ZIP_BYTES:
        raise zipfile.BadZipFile(f"more than {LIMIT_NESTED_ZIP_BYTES // MIB} MiB; unpack it first")
    return io.BytesIO(content)


def printable(name: str) -> str:
    """Return a name without what would break a line, a terminal or an encoding."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in name)
