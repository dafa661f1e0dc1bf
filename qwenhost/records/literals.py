"""Text without which a regular expression cannot match: a search for it is a hundred times as fast.

It is read from the expression as Python parses it, so that nobody has to keep a list beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any


@dataclass(frozen=True)
class AllOf:
    """Every part is needed; of no parts, nothing can be said."""

    parts: tuple[Need, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    """One part is enough."""

    parts: tuple[Need, ...]


Need = str | AllOf | AnyOf
"""What a text must hold, so that an expression can match in it."""

_ALIKE = bytes.maketrans(b"123456789", b"000000000")


class Gist:
    """The lines of a text, each once and with all digits alike: a log of megabytes has few that differ so."""

    def __init__(self, text: bytes) -> None:
        self._places: dict[bytes, list[int]] = {}
        start = 0
        for line in text.translate(_ALIKE).split(b"\n"):
            self._places.setdefault(line, []).append(start)
            start += len(line) + 1
        self._lines = b"\n".join(self._places)

    def may_match(self, pattern: str) -> bool:
        """Tell whether the text holds what `pattern` needs; if not, a search is in vain."""
        return _possible(needs(pattern), self._holds)

    def starts(self, word: str) -> Iterator[int]:
        """Yield the offsets of the lines of the text that hold a word, up to its digits, in no order."""
        needle, at = _alike(word), 0
        while (at := self._lines.find(needle, at)) >= 0:
            start, end = self._lines.rfind(b"\n", 0, at) + 1, self._lines.find(b"\n", at)
            at = len(self._lines) if end < 0 else end
            yield from self._places[self._lines[start:at]]

    def _holds(self, literal: str) -> bool:
        return all(part in self._lines for part in _alike(literal).split(b"\n"))


def _alike(text: str) -> bytes:
    return text.encode().translate(_ALIKE)


def _possible(need: Need, holds: Callable[[str], bool]) -> bool:
    if isinstance(need, str):
        return holds(need)
    every = all if isinstance(need, AllOf) else any
    return every(_possible(part, holds) for part in need.parts)


@cache
def needed(pattern: str) -> tuple[str, ...]:
    """Return strings of which every match holds at least one; empty when nothing can be said."""
    return _best(needs(pattern))


def _best(need: Need) -> tuple[str, ...]:
    """Return the choice whose shortest string is the longest."""
    if isinstance(need, str):
        return (need,)
    choices = [_best(part) for part in need.parts]
    if isinstance(need, AllOf):
        return max(choices, key=_shortest, default=())
    return tuple(literal for choice in choices for literal in choice) if all(choices) else ()


def _shortest(literals: tuple[str, ...]) -> int:
    return min(map(len, literals), default=0)


@cache
def needs(pattern: str) -> Need:
    """Return what a text must hold for a match of `pattern`."""
    tree = parser.parse(pattern, re.MULTILINE)
    return AllOf() if tree.state.flags & re.IGNORECASE else _all(tree)


def _all(items: Iterable[tuple[Any, Any]]) -> AllOf:
    return AllOf(tuple(need for need in _parts(items) if need != "" and need != AllOf()))


def _parts(items: Iterable[tuple[Any, Any]]) -> Iterator[Need]:
    run = ""
    for kind, value in items:
        if kind is sre.LITERAL:
            run += chr(value)
        elif kind is not sre.AT:  # an anchor takes no text, so that what stands around it is adjacent
            yield run
            run = ""
            yield _inside(kind, value)
    yield run


def _inside(kind: Any, value: Any) -> Need:
    """Return what a group, a look ahead or behind, a repetition or a choice needs."""
    if kind is sre.ASSERT:
        return _all(value[1])
    if kind is sre.SUBPATTERN and not value[1] & re.IGNORECASE:
        return _all(value[3])
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] > 0:
        return _all(value[2])
    if kind is sre.BRANCH:
        return AnyOf(tuple(map(_all, value[1])))
    return AllOf()
