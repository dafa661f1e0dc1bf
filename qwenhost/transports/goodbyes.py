"""Why a server broke a connection off: paramiko only logs what it says, and raises an error that says less."""

from __future__ import annotations

import logging

MARK = "Disconnect (code"


class _Goodbyes(logging.Handler):
    """Keeps the last words of servers, by the thread of the connection."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.words: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take one line of the log."""
        text = record.getMessage()
        if text.startswith(MARK):
            self.words[record.thread] = text.partition("): ")[2].strip()


_kept = _Goodbyes()
_log = logging.getLogger("paramiko.transport")
_log.addHandler(_kept)
_log.setLevel(logging.INFO)


def said(thread: int | None) -> str:
    """Return what the server of a connection said at last, and forget it; empty where it said nothing."""
    return _kept.words.pop(thread, "")
