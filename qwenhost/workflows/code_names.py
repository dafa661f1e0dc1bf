"""Which names a check uses, seen in its compiled code: attributes of facts, figures of products, data files.

So that what `qwenhost explain` tells of a check is what the check does, and needs no second list.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Iterator
from inspect import unwrap
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

OURS = ("qwenhost.checks", "qwenhost.expectations")
"""Packages whose functions are followed."""

DATA_FILE = re.compile(r"[\w./-]+\.yaml")


def names_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return all names in a function and in the functions of its own package that it calls."""
    package = function.__module__.rpartition(".")[0]
    return frozenset(name for called in _calls(function, (package,)) for name in _names(called.__code__))


def attributes_of(variable: str, function: Callable[..., Any]) -> frozenset[str]:
    """Return what a function, with those of its own package that it calls, takes from a variable of this name."""
    package = function.__module__.rpartition(".")[0]
    codes = [code for called in _calls(function, (package,)) for code in _codes(called.__code__)]
    return frozenset(name for code in codes for name in _attributes(code, variable))


def _attributes(code: CodeType, variable: str) -> Iterator[str]:
    for load, then in pairwise(dis.get_instructions(code)):
        loaded = load.argval[-1:] if isinstance(load.argval, tuple) else (load.argval,)
        if loaded == (variable,) and then.opname.startswith("LOAD_ATTR"):
            yield then.argval


def data_files_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the data files that a function reads, through whatever functions of ours."""
    found = set[str]()
    for called in _calls(function, OURS):
        constants = [item for code in _codes(called.__code__) for item in code.co_consts]
        constants += [called.__globals__.get(name) for name in _names(called.__code__)]
        found |= {item for item in constants if isinstance(item, str) and DATA_FILE.fullmatch(item)}
    return tuple(sorted(found))


def _calls(function: Callable[..., Any], packages: tuple[str, ...]) -> Iterator[FunctionType]:
    """Yield a function and all that it calls by name, once each, as far as they are in these packages."""
    waiting, seen = [unwrap(function)], set[Any]()
    while waiting:
        current = waiting.pop()
        if current in seen or not isinstance(current, FunctionType):
            continue
        seen.add(current)
        yield current
        named = (unwrap(current.__globals__.get(name)) for name in _names(current.__code__))  # type: ignore[arg-type]
        waiting += [each for each in named if getattr(each, "__module__", "").startswith(packages)]


def _names(code: CodeType) -> Iterator[str]:
    for each in _codes(code):
        yield from each.co_names


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions and comprehensions in it."""
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _codes(item)
