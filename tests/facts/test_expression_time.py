"""No expression gets lost: over the most hostile text that can enter, each comes to an end at once."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import qwenhost.facts
from qwenhost.facts.registry import sources
from qwenhost.records.literals import Need, needs
from qwenhost.transports.excerpts import LINE_CHARACTERS, tamed

MOST_SECONDS = 0.5
"""Of processor time, for two of the longest lines; most take a thousandth of it."""

SIZES = (500, 2000, 8000, 2 * LINE_CHARACTERS)
"""Characters. From step to step a quadratic expression takes 16 times as long, a cubic one 64 times."""

RUNS = (
    " ",
    "\t",
    "\n",
    "0",
    "a",
    "Z",
    ".",
    "-",
    "|",
    ":",
    "[",
    ", ",
    "a ",
    "a0",
    " \n",
    "a\n",
    "|\n",
    "1 ",
    "a: ",
    "0:",
)

Search = Callable[[str], object]


def module_searches() -> Iterator[tuple[str, str, Search]]:
    """Yield name, expression and use of each expression that a module of facts has compiled."""
    for found in pkgutil.walk_packages(qwenhost.facts.__path__, "qwenhost.facts."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            for number, pattern in enumerate(compiled(value)):
                use = pattern.match if only_matched(module, name) else pattern.search
                yield f"{found.name.removeprefix('qwenhost.facts.')}.{name}.{number}", pattern.pattern, use


def compiled(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, (tuple, list)):
        yield from (pattern for item in value for pattern in compiled(item))
    elif isinstance(value, dict):
        yield from compiled([*value, *value.values()])


def only_matched(module: Any, name: str) -> bool:
    """Tell whether an expression is only held against the start of a text."""
    uses = set(re.findall(rf"\b{name}\.(\w+)\(", inspect.getsource(module)))
    return bool(uses) and uses <= {"match", "fullmatch"}


def forms() -> Iterator[tuple[str, str, Search]]:
    """Yield the same of what files are recognised by."""
    for source in sources():
        yield source.name, source.looks_like, re.compile(source.looks_like, re.MULTILINE).search


SEARCHES = {expression: (name, search) for name, expression, search in (*module_searches(), *forms())}


def hostile(expression: str) -> Iterator[tuple[str, str]]:
    """Yield starts and what is repeated behind each."""
    yield from (("", run) for run in RUNS)
    for literal in dict.fromkeys(literals(needs(expression))):
        yield from (("", f"{literal}{end}") for end in ("", " ", "\n"))
        yield from ((literal, run) for run in RUNS[:6])


def literals(need: Need) -> Iterator[str]:
    if isinstance(need, str):
        yield need
    else:
        yield from (literal for part in need.parts for literal in literals(part))


def seconds(search: Search, start: str, run: str, size: int) -> float:
    """Return the processor time of a search in a text of about `size` characters, as it would enter."""
    text = tamed(start + run * (size // len(run)))
    began = time.thread_time()
    search(text)
    return time.thread_time() - began


@pytest.mark.parametrize(
    ("name", "expression", "search"),
    [(name, expression, search) for expression, (name, search) in SEARCHES.items()],
    ids=[name for name, _ in SEARCHES.values()],
)
def test_every_search_ends_soon(name: str, expression: str, search: Search) -> None:
    worst = max(hostile(expression), key=lambda text: seconds(search, *text, SIZES[0]))
    for size in SIZES:
        took = seconds(search, *worst, size)
        assert took < MOST_SECONDS, f"{worst}: {took:.2f} s at {size} characters"
