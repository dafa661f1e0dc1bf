"""How a fact comes out of a bundle: parsers in order of trust, merged where the fact can be merged."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar, cast, get_type_hints

from qwenhost.records.bundle import Bundle, Capture, Status
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source

Fact = TypeVar("Fact")

ANSWERED: tuple[Status, ...] = ("ok",)
"""By default a parser sees only captures that hold an answer."""

ANY: tuple[Status, ...] = ("ok", "missing", "denied", "timeout", "failed")
"""For facts about the answering itself, such as a driver that hangs."""


MISREAD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a parser raises where an answer has another form than it took for granted."""


@dataclass(frozen=True)
class Parser:
    """One way to a fact."""

    fact: type[Any]
    source: Source
    accepts: tuple[Status, ...]
    trust: int
    parse: Callable[[Capture], Any]


@dataclass(frozen=True)
class Seen(Generic[Fact]):
    """A fact, with the captures that it came from."""

    fact: Fact
    captures: tuple[Capture, ...]


@dataclass(frozen=True)
class Unseen:
    """Why a fact is not there: the sources that would have had it, and what became of each."""

    sources: tuple[str, ...]
    reason: str


_PARSERS: list[Parser] = []


def parses(
    source: Source, *, trust: int = 0, accepts: tuple[Status, ...] = ANSWERED
) -> Callable[[Callable[[Capture], Fact]], Callable[[Capture], Fact]]:
    """Register a parser of `source`; its return type is the fact. Lower `trust` numbers are asked first.

    The parser raises Unparsable for a form that it does not know; it never guesses.
    """

    def register(parse: Callable[[Capture], Fact]) -> Callable[[Capture], Fact]:
        fact = get_type_hints(parse)["return"]
        _PARSERS.append(Parser(fact, source, accepts, trust, parse))
        return parse

    return register


@cache
def parsers() -> tuple[Parser, ...]:
    """Return all parsers, the most trusted first, in the same order whatever was imported first."""
    package = importlib.import_module("qwenhost.facts")
    for module in pkgutil.walk_packages(package.__path__, "qwenhost.facts."):
        importlib.import_module(module.name)
    return tuple(sorted(_PARSERS, key=lambda parser: (parser.trust, parser.parse.__module__)))


@cache
def sources() -> tuple[Source, ...]:
    """Return every source that any fact wants, once each, by name."""
    found = {parser.source.name: parser.source for parser in parsers()}
    return tuple(found[name] for name in sorted(found))


def read(bundle: Bundle, fact: type[Fact]) -> Seen[Fact] | Unseen:
    """Return one fact of a bundle, parsed at the first time that it is asked for.

    A record whose class has `merge(self, other)` is built from all its captures in order of trust
    (the earlier ones win); any other comes from the first capture that can be parsed.
    """
    if fact not in bundle.facts:
        bundle.facts[fact] = _parse(bundle, fact)
    answer: Seen[Fact] | Unseen = bundle.facts[fact]
    return answer


def _parse(bundle: Bundle, fact: type[Fact]) -> Seen[Fact] | Unseen:
    ways = [parser for parser in parsers() if parser.fact is fact]
    reasons: list[str] = []
    seen: Seen[Fact] | None = None
    for value, capture in _values(bundle, ways, reasons):
        seen = Seen(value, (capture,)) if seen is None else _merged(seen, value, capture)
        if not hasattr(fact, "merge"):
            break
    return seen or Unseen(tuple(dict.fromkeys(way.source.name for way in ways)), "; ".join(reasons))


def _merged(seen: Seen[Any], value: Any, capture: Capture) -> Seen[Any]:
    return Seen(seen.fact.merge(value), (*seen.captures, capture))


def _values(bundle: Bundle, ways: list[Parser], reasons: list[str]) -> Iterator[tuple[Any, Capture]]:
    for way in ways:
        captures = bundle.of(way.source.name)
        if not captures:
            reasons.append(f"{way.source.name}: not captured")
        for capture in captures:
            try:
                yield _parsed(way, capture), capture
            except Unparsable as error:
                reasons.append(f"{way.source.name}: {error}")


def _parsed(way: Parser, capture: Capture) -> Any:
    if capture.status not in way.accepts:
        raise Unparsable(capture.error or capture.status)
    if capture.status == "ok" and not capture.text.strip() and way.accepts == ANSWERED:
        raise Unparsable("empty answer")
    try:
        return way.parse(capture)
    except MISREAD as error:
        raise Unparsable(f"form not understood ({type(error).__name__}: {error})") from error


Record = TypeVar("Record")


def filled(first: Record, second: Record) -> Record:
    """Return `first` with its None fields taken from `second`: the field-wise merge of two partial views."""
    if not is_dataclass(first) or isinstance(first, type):
        raise TypeError(f"{first!r} is not a record")
    gaps = {
        field.name: getattr(second, field.name)
        for field in fields(first)
        if getattr(first, field.name) is None and getattr(second, field.name) is not None
    }
    return cast(Record, replace(first, **gaps))
