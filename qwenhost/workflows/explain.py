"""What a check asks, why, what it reads, and what it holds a host to."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from qwenhost.checks.declare import Check, checks
from qwenhost.facts import registry
from qwenhost.records.errors import QwenhostError
from qwenhost.records.source import Source


@dataclass(frozen=True)
class Explanation:
    """A check with everything that feeds it."""

    check: Check
    facts: tuple[type[Any], ...]
    sources: tuple[Source, ...]


def explain(check_id: str) -> Explanation:
    """Return what is known of a check. Raises QwenhostError for an id that does not exist."""
    known = checks()
    if check_id not in known:
        near = difflib.get_close_matches(check_id, known, n=3) or list(known)[:3]
        raise QwenhostError(
            f"there is no check {check_id}", hint=f"qwenhost checks lists all, such as {', '.join(near)}"
        )
    facts = facts_of(known[check_id])
    parsers = [parser for parser in registry.parsers() if parser.fact in facts]
    found = {parser.source.name: parser.source for parser in parsers}
    return Explanation(known[check_id], facts, tuple(found.values()))


def facts_of(check: Check) -> tuple[type[Any], ...]:
    """Return the facts that a check needs or can use: the types of its parameters that parsers produce."""
    hints = {name: hint for name, hint in get_type_hints(check.judge).items() if name != "return"}
    produced = {parser.fact for parser in registry.parsers()}
    parts = [part for hint in hints.values() for part in (get_args(hint) or (hint,)) if part is not NoneType]
    return tuple(part for part in parts if part in produced)
