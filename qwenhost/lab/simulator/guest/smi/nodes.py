"""Values of `nvidia-smi -q`, as a tree that both of its forms are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Node = tuple[str, str, Any]
    """Label of the text form (empty: not in it), tag of the XML form (likewise), text or list of nodes."""


def amounts(total: int, used: int, reserved: int = -1) -> list[Node]:
    """Return a block of memory in MiB; a negative `reserved` has no line."""
    kept = max(reserved, 0)
    nodes: list[Node] = [("Total", "total", f"{total} MiB")]
    if reserved >= 0:
        nodes.append(("Reserved", "reserved", f"{reserved} MiB"))
    return [*nodes, ("Used", "used", f"{used} MiB"), ("Free", "free", f"{total - used - kept} MiB")]


def pair(label: str, tag: str, suffix: str, current: str, pending: str = "") -> Node:
    """Return a block of a current and a pending value."""
    later = pending or current
    return (label, tag, [("Current", f"current_{suffix}", current), ("Pending", f"pending_{suffix}", later)])
