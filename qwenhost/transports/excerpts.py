"""Text of any length in bounded memory: whole, or its head, its tail and the lines that matter."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MIB = 1 << 20

CHUNK_BYTES = MIB

WHOLE_BYTES = 16 * MIB
"""One file, or one section of a bug report; an ordinary report of eight GPUs is below 10 MiB altogether."""

JSON_BYTES = 32 * MIB
"""JSON is of no use in parts."""

HEAD_BYTES = 4 * MIB
TAIL_BYTES = 8 * MIB

WORD_BYTES = MIB // 4
"""Lines kept for one word, so that a flood of one message leaves room for the others."""

LINE_BYTES = 64 * 1024

WORDS = (
    *(b"NVRM", b"nvidia", b"NVIDIA", b"Xid", b"AER:", b"PCIe Bus Error", b"fallen off", b"vfio-pci", b"mlx5"),
    *(b"Linux version", b"Command line:", b"secureboot", b"Secure boot", b"Lockdown", b"module verification"),
    *(b"Out of memory", b"oom-kill", b"blocked for more than", b"soft lockup", b"mce:", b"Hardware Error"),
    *(b"file-max", b"Too many open files", b"[Errno", b"I/O error", b"CUDA", b"cuda", b"NCCL", b"vLLM", b"vllm"),
    *(b"error", b"Error", b"ERROR", b"failed", b"Failed", b"rejected", b"Killed", b"/dev/shm"),
)
"""What lines from the middle of a very long text are kept for."""

RULE = re.compile(rb"^_{44}[ \t\r]*$\n?", re.MULTILINE)
"""What nvidia-bug-report.sh prints between its sections."""

_RULE_START = b"_" * 44

LINE_CHARACTERS = 16_384
"""Longer lines are broken up: expressions that look for a word in a line take the square of its length."""

_BLANKS = re.compile(r"\n\s{200,}")

Read = Callable[[int], bytes]


def tamed(text: str) -> str:
    """Return `text` without what no expression gets through in time: endless blank lines, endless lines."""
    text = _BLANKS.sub(lambda blanks: blanks[0][:200] + "\n", text)
    lines = text.split("\n")
    if max(map(len, lines)) <= LINE_CHARACTERS:
        return text
    starts = ((line, range(0, max(len(line), 1), LINE_CHARACTERS)) for line in lines)
    return "\n".join(line[start : start + LINE_CHARACTERS] for line, places in starts for start in places)


@dataclass(frozen=True)
class Excerpt:
    """`kept` is all of `total_bytes`, or less: then it is whole lines, and `cut` is true."""

    kept: bytes
    total_bytes: int
    cut: bool = False


class Gathering:
    """Takes a text in chunks and keeps a bounded part of it."""

    def __init__(self) -> None:
        self._total = 0
        self._start: deque[bytes] = deque()
        self._middle: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._room = dict.fromkeys(WORDS, WORD_BYTES)

    def add(self, chunk: bytes) -> None:
        """Take the next piece, of whole lines as far as there are line ends."""
        self._total += len(chunk)
        if self._total <= self._limit(chunk):
            self._start.append(chunk)
            return
        while self._start and sum(map(len, self._start)) > HEAD_BYTES:
            self._put_behind(self._start.pop(), first=True)
        self._put_behind(chunk)
        while self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            self._middle.append(self._worth_keeping(self._taken()))

    def excerpt(self) -> Excerpt:
        """Return what was kept of all that was added."""
        kept = b"".join((*self._start, *self._middle, *self._tail))
        return Excerpt(kept, self._total, cut=len(kept) < self._total)

    def _limit(self, chunk: bytes) -> int:
        if self._tail:
            return 0
        first = self._start[0] if self._start else chunk
        return JSON_BYTES if first.lstrip()[:1] == b"{" else WHOLE_BYTES

    def _put_behind(self, chunk: bytes, *, first: bool = False) -> None:
        (self._tail.appendleft if first else self._tail.append)(chunk)
        self._tail_bytes += len(chunk)

    def _taken(self) -> bytes:
        chunk = self._tail.popleft()
        self._tail_bytes -= len(chunk)
        return chunk

    def _worth_keeping(self, chunk: bytes) -> bytes:
        lines = sorted({line for word in list(self._room) for line in self._lines_with(word, chunk)})
        return b"".join(chunk[start : min(end, start + LINE_BYTES)].rstrip(b"\n") + b"\n" for start, end in lines)

    def _lines_with(self, word: bytes, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Yield start and end of the lines with a word, until its room is used up."""
        place = chunk.find(word)
        while place >= 0 and word in self._room:
            start = chunk.rfind(b"\n", 0, place) + 1
            end = chunk.find(b"\n", place) + 1 or len(chunk)
            yield start, end
            self._room[word] -= min(end - start, LINE_BYTES)
            if self._room[word] <= 0:
                del self._room[word]
            place = chunk.find(word, end)


def excerpts(read: Read) -> Iterator[tuple[Excerpt, bool]]:
    """Yield a text and false, or the sections of a bug report one by one, each with true."""
    gathering, section = Gathering(), False
    for lines in _whole_lines(read):
        first, *others = RULE.split(lines) if _RULE_START in lines else [lines]
        gathering.add(first)
        for piece in others:
            section = True
            yield gathering.excerpt(), section
            gathering = Gathering()
            gathering.add(piece)
    yield gathering.excerpt(), section


def _whole_lines(read: Read) -> Iterator[bytes]:
    """Yield chunks that end with a line; one line of more than a chunk is yielded in parts."""
    rest = b""
    while chunk := read(CHUNK_BYTES):
        chunk = rest + chunk
        end = chunk.rfind(b"\n") + 1
        if not end and len(chunk) >= CHUNK_BYTES:
            end = len(chunk)
        rest = chunk[end:]
        if end:
            yield chunk[:end]
    if rest:
        yield rest
