"""What an act answers, and how it refuses."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """The act could not be done; the message is one line that says what and why."""


class BadRequest(Exception):
    """The request has not the form that the act takes."""


def outcome(before: list[str], after: list[str], reboot_reason: str = "") -> dict[str, Any]:
    """Return an act's answer; `before` and `after` are readable lines, and differ where something changed."""
    return {
        "changed": before != after,
        "before": before,
        "after": after,
        "reboot_required": bool(reboot_reason),
        "reason": reboot_reason,
    }


def why(error: BaseException) -> str:
    """Return an error as a few words on one line."""
    reason = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(reason or error or type(error).__name__).split())
