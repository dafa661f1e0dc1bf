"""When something stood in a log, in the words of all checks that read one."""

from __future__ import annotations


def when(first: str, last: str) -> str:
    """Return both stamps as printed; empty where there is none, or only the step since the line before."""
    if not first or first.startswith("+"):
        return ""
    return f"at {first}" if first == last else f"first at {first}, last at {last}"
