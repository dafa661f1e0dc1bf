"""One source being read by a child process, over three pipes: text, messages, and how it went."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any

from qwenhost.probe import children

MESSAGE_BYTES = 64 * 1024

CUT_HERE = ("command",)
"""Other readers keep the limit themselves, so that what they write in JSON stays whole."""
NO_LIMIT = 1 << 30

CHUNK_BYTES = 64 * 1024

REFUSALS = ("Permission denied", "Operation not permitted")
"""What EACCES and EPERM are called in the C locale."""


class Reader:
    """A child process that reads one source. `stuck` is set when it cannot be killed."""

    def __init__(self, source: dict[str, Any], timeout_seconds: float) -> None:
        self.source = source
        self.timeout_seconds = timeout_seconds
        self.stuck = False
        self.truncated = False
        self.started = time.monotonic()
        self.seconds = 0.0
        self.pid, ends = _start(source)
        self.exit_status = 0 if self.pid is None else None  # type: int | None
        self.text, self.messages, self.outcome = bytearray(), bytearray(), bytearray()
        limit = int(source["limit_bytes"])
        self.pipes = {
            ends[0]: (self.text, limit if source["kind"] in CUT_HERE else NO_LIMIT),
            ends[1]: (self.messages, MESSAGE_BYTES),
            ends[2]: (self.outcome, MESSAGE_BYTES),
        }
        self.open_pipes = set(ends)

    def drain(self, fd: int) -> bool:
        """Read what one pipe has; true when it has ended. What is over the limit is read and dropped."""
        buffer, limit = self.pipes[fd]
        while fd in self.open_pipes:
            try:
                chunk = os.read(fd, CHUNK_BYTES)
            except BlockingIOError:
                return False
            if not chunk:
                os.close(fd)
                self.open_pipes.discard(fd)
                break
            room = limit - len(buffer)
            buffer.extend(chunk[:room])
            if len(chunk) > room and buffer is self.text:
                self.truncated = True
                self.kill()  # an endless answer stays endless
                return False
        return True

    def drain_rest(self) -> None:
        """Read what is left in the pipes and close them."""
        for fd in sorted(self.open_pipes):
            if not self.drain(fd):
                os.close(fd)
                self.open_pipes.discard(fd)

    def silent(self) -> bool:
        """All pipes are closed, and the process has not been seen to end."""
        return not self.open_pipes and self.exit_status is None

    def ended(self) -> bool:
        """Look whether the process has ended; its descendants may live on and are not waited for."""
        if self.exit_status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_status = status
                self.seconds = time.monotonic() - self.started
        return self.exit_status is not None

    def late(self, now: float) -> bool:
        """Its time is over."""
        return now - self.started > self.timeout_seconds

    def kill(self) -> None:
        """Kill the process group, unless the process has ended."""
        if self.exit_status is not None:
            return
        self.seconds = time.monotonic() - self.started
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def result(self) -> dict[str, Any]:
        """Return the capture in its JSON form."""
        status, error = self._status()
        return {
            "source": self.source["name"],
            "status": status,
            "text": self.text.decode("utf-8", "replace"),
            "exit_code": None if self.outcome or self.source["kind"] != "command" else self._exit_code(),
            "error": error,
            "seconds": round(self.seconds, 3),
            "truncated": self.truncated,
        }

    def _status(self) -> tuple[Any, ...]:
        if self.truncated and self.text:
            return "ok", ""
        if self.stuck:
            return "timeout", "no answer within {:g} s, and it cannot be killed: stuck in the kernel".format(
                self.timeout_seconds
            )
        if self.outcome:
            told = json.loads(self.outcome.decode("utf-8"))
            self.truncated = told.get("truncated", False)
            return told["status"], told["error"]
        code = self._exit_code() or 0
        if code == -signal.SIGKILL and self.seconds >= self.timeout_seconds:
            return "timeout", "no answer within {:g} s".format(self.timeout_seconds)
        if code in self.source["good_exits"]:
            return "ok", ""
        return self._failure(code)

    def _failure(self, code: int) -> tuple[Any, ...]:
        messages = self.messages.decode("utf-8", "replace")
        lines = (messages + "\n" + self.text.decode("utf-8", "replace")).split("\n")
        first = next((line.strip() for line in lines if line.strip()), "no message")
        how = "signal {}".format(-code) if code < 0 else "exit code {}".format(code)
        denied = any(refusal in messages for refusal in REFUSALS)
        return "denied" if denied else "failed", "{}: {}".format(how, first[:300])

    def _exit_code(self) -> int | None:
        """Exit code, or the negative number of the signal that ended it."""
        if self.exit_status is None:
            return None
        if os.WIFSIGNALED(self.exit_status):
            return -os.WTERMSIG(self.exit_status)
        return os.WEXITSTATUS(self.exit_status)


def _start(source: dict[str, Any]) -> tuple[Any, ...]:
    """Start the child; return its pid and the reading ends of its three pipes."""
    pairs = [os.pipe() for _ in range(3)]
    pid = children.start(source, *[write for _, write in pairs])
    for read, write in pairs:
        os.close(write)
        os.set_blocking(read, False)
    return pid, [read for read, _ in pairs]
