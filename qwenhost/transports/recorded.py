"""Bundles that somebody recorded: a folder, file, archive, bug report or standard input, told by content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from qwenhost.facts.kernel_lines import KERNEL_LOG, is_excerpt
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import sources
from qwenhost.records.bundle import Bundle, Capture, from_json
from qwenhost.records.errors import QwenhostError
from qwenhost.records.literals import Gist
from qwenhost.records.source import Source
from qwenhost.transports.excerpts import MIB, Excerpt, tamed
from qwenhost.transports.opening import Document, documents
from qwenhost.transports.taming import tamed_bundle
from qwenhost.transports.uncovered import uncovered, unquoted, unwrapped
from qwenhost.transports.unpacking import Ledger

LIMIT_KEPT_BYTES = 64 * MIB
"""Recognised texts together; they and what is parsed from them stay in memory."""

LARGE = 64 * 1024
"""Characters; below, the expressions themselves are faster than finding out what they need."""

LIMIT_NAMES = 200
"""Files that were not recognised; a home folder given by mistake has thousands."""

LEFT_OUT = "left_out"
"""Note of a bundle: what was not read whole."""

_OWN_BUNDLE = re.compile(r'\A\s*\{\s*"schema"\s*:\s*\d+\s*,\s*"host"\s*:.*"captures"\s*:', re.DOTALL)


def read(path: str) -> Bundle:
    """Return the bundle at `path`; "-" is standard input.

    Raises QwenhostError when nothing can be read, BadData for a broken bundle of our own.
    """
    ledger = Ledger()
    own: dict[str, str] = {}
    found: dict[str, list[Capture]] = {}
    room = LIMIT_KEPT_BYTES
    for document in documents(path, ledger):
        text = _text(document.excerpt.kept)
        captures = found.setdefault(document.name, [])
        if _OWN_BUNDLE.match(text):
            own[document.name] = _whole(document, text)
            continue
        recognised = list(_captures(document, text))
        room -= len(text) if recognised else 0
        if room >= 0:
            captures.extend(recognised)
            _note_cut(document, recognised, ledger)
        else:
            ledger.leave(document.name, f"more than {LIMIT_KEPT_BYTES // MIB} MiB of captures")
    if own:
        return _own_bundle(own)
    return _bundle(path, found, ledger)


def _bundle(path: str, found: dict[str, list[Capture]], ledger: Ledger) -> Bundle:
    captures = tuple(capture for captures in found.values() for capture in captures)
    strangers = [*(name for name, captures in found.items() if not captures), *ledger.left_out]
    if len(strangers) > LIMIT_NAMES:
        strangers[LIMIT_NAMES:] = [f"and {len(strangers) - LIMIT_NAMES} more"]
    notes = {LEFT_OUT: "\n".join(ledger.notes)} if ledger.notes else {}
    return Bundle(_host(path), captures, unrecognised=tuple(strangers), notes=notes)


def _whole(document: Document, text: str) -> str:
    if document.excerpt.cut:
        size = document.excerpt.total_bytes // MIB
        raise QwenhostError(f"{document.name}: {size} MiB are too many for a bundle", hint="record it again")
    return text


def _own_bundle(own: dict[str, str]) -> Bundle:
    if len(own) > 1:
        raise QwenhostError(f"several bundles in one place: {', '.join(own)}", hint="give one bundle at a time")
    return tamed_bundle(next(from_json(text, name) for name, text in own.items()))


def _note_cut(document: Document, recognised: list[Capture], ledger: Ledger) -> None:
    excerpt = document.excerpt
    if excerpt.cut and recognised:
        name = recognised[0].origin
        ledger.notes.append(
            f"{name}: of {excerpt.total_bytes / MIB:.0f} MiB the start, the end and lines that tell of trouble"
        )


def _captures(document: Document, text: str) -> Iterator[Capture]:
    label, body = _section(text) if document.section else ("", text)
    origin = f"{document.name}: {label}" if label else document.name
    if "\0" in body:
        body = _without_zeros(body)
    if "\x1b" in body:
        body = plain(body)
    body = unwrapped(unquoted(body))
    found = [*_recognised(document, body, origin)]
    yield from found or _recognised(document, uncovered(body), origin)


def _recognised(document: Document, body: str, origin: str) -> Iterator[Capture]:
    tame = tamed(body)
    for source in _possible(body) if body else ():
        if source.looks_like.startswith(r"\A") and source.recognises(body):
            yield _capture(source, body, origin, document.excerpt)
        elif source.recognises(tame):
            yield _capture(source, tame, origin, document.excerpt)


def _possible(text: str) -> Sequence[Source]:
    """Return the sources that `text` may be from, by the words that their forms need."""
    if len(text) <= LARGE:
        return sources()
    gist = Gist(text.encode("utf-8", "surrogatepass"))
    return [source for source in sources() if gist.may_match(source.looks_like)]


def _section(piece: str) -> tuple[str, str]:
    """Return the title of a bug report's section (a path or a command line) and what stands under it."""
    lines = piece.strip("\n").splitlines()
    start = next((number for number, line in enumerate(lines) if not re.match(r"\*\*\* ls: |\s*$", line)), 0)
    title = lines[start].removeprefix("*** ").strip() if lines else ""
    rest = [line for line in lines[start + 1 :] if not line.startswith("*** ls: ")]
    return (title, "\n".join(rest) + "\n") if title.startswith("/") else ("", "\n".join(lines[start:]) + "\n")


def _without_zeros(text: str) -> str:
    """Drop the zeros that a crash leaves in a log; return nothing for a file that is no text."""
    lines = text.split("\n")
    return text.replace("\0", "") if sum("\0" in line for line in lines) * 10 <= len(lines) else ""


def _capture(source: Source, text: str, origin: str, excerpt: Excerpt) -> Capture:
    code = 0 if source.kind == "command" else None
    cut = excerpt.cut or (source.name == KERNEL_LOG.name and is_excerpt(text))
    return Capture(source.name, "ok", text, exit_code=code, truncated=cut, origin=origin)


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace").lstrip("\ufeff").replace("\r\n", "\n")


def _host(path: str) -> str:
    name = "standard input" if path == "-" else Path(path).resolve().name
    return re.sub(r"\.(tar|zip|tgz|txz|gz|xz|bz2|log|txt|json|xml)(\.(gz|xz|bz2))?$", "", name)
