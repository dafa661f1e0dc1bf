"""A source that is a command: its standard output is the answer, its exit code says how it went."""

from __future__ import annotations

import errno
import os
from typing import Any, Iterator

from qwenhost.probe.child import Child, failure

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C", "LANG": "C", "HOME": "/", "SYSTEMD_COLORS": "0", "TERM": "dumb"}


class Command(Child):
    """One command that runs, or that cannot be started."""

    def __init__(self, source: dict[str, Any], timeout_seconds: float) -> None:
        self.source = source
        self.refusal: dict[str, Any] | None = None
        super().__init__(timeout_seconds, int(source["limit_bytes"]))

    def start(self, text_fd: int, message_fd: int) -> int | None:
        """Start it without a copy of this process, which would cost more than most commands do."""
        argv = self.source["argv"]
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, text_fd, 1),
            (os.POSIX_SPAWN_DUP2, message_fd, 2),
        ]
        try:
            return os.posix_spawn(_found(argv[0]), argv, ENVIRONMENT, file_actions=actions, setsid=True)
        except OSError as error:
            self.refusal = failure(error, argv[0])
            return None

    def captures(self) -> Iterator[dict[str, Any]]:
        """Yield its one answer."""
        text = self.text.decode("utf-8", "replace")
        status, error = self._outcome(text)
        yield {
            "source": self.source["name"],
            "status": status,
            "text": text,
            "exit_code": None if self.refusal else self.exit_code(),
            "error": error,
            "seconds": round(self.seconds, 3),
            "truncated": self.truncated,
        }

    def _outcome(self, text: str) -> tuple[str, str]:
        if self.refusal:
            return self.refusal["status"], self.refusal["error"]
        answered = self.exit_code() in self.source["good_exits"] and not self.stuck
        return ("ok", "") if answered or (self.truncated and text) else self.why_no_answer(text)


def _found(name: str) -> str:
    """Return the path of a command, one that may be run before one that may not."""
    paths = [os.path.join(folder, name) for folder in PATH.split(":")]
    there = [path for path in paths if os.path.exists(path)]
    if not there:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return next((path for path in there if os.access(path, os.X_OK)), there[0])
