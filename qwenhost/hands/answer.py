"""What an act answers, and how it refuses."""

from __future__ import annotations

from typing import Any, Iterable


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


def joined(answers: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the answers of several acts as that of one."""
    told = list(answers)
    before, after = ([line for answer in told for line in answer[key]] for key in ("before", "after"))
    return outcome(before, after, "; ".join(answer["reason"] for answer in told if answer["reason"]))


def why(error: BaseException) -> str:
    """Return an error as a few words on one line."""
    reason = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(reason or error or type(error).__name__).split())
