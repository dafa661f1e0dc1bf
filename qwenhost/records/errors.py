"""The errors that a user sees: one line, a hint, an exit code."""

from __future__ import annotations

FAILED = 1
USAGE = 2
UNSEEN = 3


class QwenhostError(Exception):
    """Something the user can act on. `exit_code`: 1 failed, 2 bad input, 3 could not be seen."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


class HostUnreachable(QwenhostError):
    """A transport could not reach or enter a host; the run goes on without it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=UNSEEN)


class Unparsable(Exception):
    """A capture has a form that its parser does not know; the fact stays unseen, with this reason."""


class BadData(QwenhostError):
    """A data file, inventory value or bundle breaks its schema: names the file and the key."""
