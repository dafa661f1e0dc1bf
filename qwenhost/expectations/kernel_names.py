"""Names that the kernel log uses: whose code a stack is in, which processes serve; read once from data/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from qwenhost.expectations.tables import refuse_unknown, table

_FILE = "kernel_log.yaml"


@dataclass(frozen=True)
class StackOwner:
    """A part of the system by the modules and the starts of functions that are its own."""

    name: str
    modules: frozenset[str]
    functions: tuple[str, ...]


@cache
def _table() -> Any:
    raw = table(_FILE)
    refuse_unknown(_FILE, raw, ("schema", "stack_owners", "serving_processes", "perhaps_serving", "sources"))
    return raw


@cache
def stack_owners() -> tuple[StackOwner, ...]:
    """Return the parts that a stack can be in; raises BadData."""
    return tuple(
        StackOwner(row["name"], frozenset(row["modules"]), tuple(row["functions"]))
        for row in _table()["stack_owners"]
    )


def owner_of(frames: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the owner of the first (function, module) that has one, with a module or function of its; else ""."""
    for function, module in frames:
        for owner in stack_owners():
            if module in owner.modules or (not module and function.startswith(owner.functions)):
                return owner.name, next((name for _, name in frames if name in owner.modules), function)
    return "", ""


def serves(process: str) -> bool:
    """Tell whether a process name, or a control group's path, is vLLM's."""
    return any(name in process.lower() for name in _table()["serving_processes"])


def may_serve(process: str) -> bool:
    """Tell whether a process of this name may be vLLM's, for want of a better name."""
    return process.lower().startswith(tuple(_table()["perhaps_serving"]))
