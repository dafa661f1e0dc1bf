"""A child process that answers through pipes, which are read as they fill and never waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Iterable

MESSAGE_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024

REFUSALS = ("Permission denied", "Operation not permitted")
"""What EACCES and EPERM are called in the C locale."""


class Child:
    """One process, and what has come through its pipes. `stuck` is set when it cannot be killed.

    `text` is its answer, of at most `limit_bytes`; `messages` is what it says beside that.
    """

    def __init__(self, timeout_seconds: float, limit_bytes: int) -> None:
        self.timeout_seconds = timeout_seconds
        self.stuck = self.truncated = False
        self.started = time.monotonic()
        self.seconds = 0.0
        self.text, self.messages = bytearray(), bytearray()
        pairs = [os.pipe() for _ in range(2)]
        self.pid = self.start(*[write for _, write in pairs])
        self.exit_status = 0 if self.pid is None else None  # type: int | None
        for read, write in pairs:
            os.close(write)
            os.set_blocking(read, False)
        self.pipes = {pairs[0][0]: (self.text, limit_bytes), pairs[1][0]: (self.messages, MESSAGE_BYTES)}
        self.open_pipes = set(self.pipes)

    def start(self, text_fd: int, message_fd: int) -> int | None:
        """Start the process; return its pid, None where there is nothing to wait for."""
        raise NotImplementedError

    def captures(self) -> Iterable[dict[str, Any]]:
        """Return what came of each source that was asked, in the JSON form of a capture."""
        raise NotImplementedError

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
            pid, status = os.waitpid(self.pid or 0, os.WNOHANG)
            if pid:
                self.exit_status = status
                self.seconds = time.monotonic() - self.started
        return self.exit_status is not None

    def late(self, now: float) -> bool:
        """Its time is over."""
        return now - self.started > self.timeout_seconds

    def kill(self) -> None:
        """Kill the process group, unless the process has ended."""
        if self.exit_status is not None or self.pid is None:
            return
        self.seconds = time.monotonic() - self.started
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def exit_code(self) -> int | None:
        """Exit code, or the negative number of the signal that ended it; None while it is there."""
        if self.exit_status is None:
            return None
        if os.WIFSIGNALED(self.exit_status):
            return -os.WTERMSIG(self.exit_status)
        return os.WEXITSTATUS(self.exit_status)

    def why_no_answer(self, output: str = "") -> tuple[str, str]:
        """Return status and error of what it was to answer and did not, with the first line that it said."""
        code = self.exit_code() or 0
        if self.stuck or (code == -signal.SIGKILL and self.seconds >= self.timeout_seconds):
            late = "no answer within {:g} s".format(self.timeout_seconds)
            return "timeout", late + ", and it cannot be killed: stuck in the kernel" * self.stuck
        messages = self.messages.decode("utf-8", "replace")
        lines = (messages + "\n" + output).split("\n")
        first = next((line.strip() for line in lines if line.strip()), "no message")
        how = "signal {}".format(-code) if code < 0 else "exit code {}".format(code)
        denied = any(refusal in messages for refusal in REFUSALS)
        return "denied" if denied else "failed", "{}: {}".format(how, first[:300])


def failure(error: BaseException, what: str) -> dict[str, Any]:
    """Return the outcome {"status", "error"} for an exception; `what` was to be read or run."""
    if isinstance(error, TimeoutError):
        return {"status": "timeout", "error": "no answer in time"}
    if isinstance(error, FileNotFoundError):
        return {"status": "missing", "error": what + ": not found"}
    if isinstance(error, PermissionError):
        return {"status": "denied", "error": what + ": permission denied"}
    text = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
    return {"status": "failed", "error": text}
