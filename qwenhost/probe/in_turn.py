"""A copy of this process that reads files, trees and the like one after the other.

Each answer is one line of JSON in its pipe. Where one read hangs, a thread more goes on with the rest.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from typing import Any, Iterator

from qwenhost.probe.child import Child, failure
from qwenhost.probe.files import read_digest, read_file, read_tree
from qwenhost.probe.loopback import read_http

STALL_SECONDS = 0.2
"""Patience with one read before the next is begun beside it. All of fifty that hang are begun in 10 s."""

NO_LIMIT = 1 << 30
"""Each reader keeps the limit of its source itself, so that what it writes in JSON stays whole."""


class InTurn(Child):
    """A process that reads several sources, all with the same timeout."""

    def __init__(self, sources: list[dict[str, Any]], timeout_seconds: float) -> None:
        self.sources = sources
        super().__init__(timeout_seconds, NO_LIMIT)

    def start(self, text_fd: int, message_fd: int) -> int:
        """Fork."""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for fd, standard in ((os.open(os.devnull, os.O_RDONLY), 0), (message_fd, 1), (message_fd, 2)):
                os.dup2(fd, standard)
            _Reading(self.sources, text_fd).run()
            os._exit(0)
        return pid

    def captures(self) -> Iterator[dict[str, Any]]:
        """Yield what was answered, and why the others were not."""
        lines = self.text.decode("ascii").split("\n")[:-1]
        answers = {answer.pop("number"): answer for answer in map(json.loads, lines)}
        status, error = self.why_no_answer()
        none = {"status": status, "error": error, "text": "", "seconds": round(self.seconds, 3)}
        for number, source in enumerate(self.sources):
            answer = answers.get(number, none)
            yield {"source": source["name"], "exit_code": None, "truncated": False, **answer}


class _Reading:
    """The work of the copy."""

    def __init__(self, sources: list[dict[str, Any]], fd: int) -> None:
        self._left = deque(enumerate(sources))
        self._fd = fd
        self._writing = threading.Lock()

    def run(self) -> None:
        """Read all; return when the last has answered."""
        threads: list[threading.Thread] = []
        while self._left:
            threads.append(threading.Thread(target=self._read_on))
            threads[-1].start()
            self._wait_while_it_goes_on(threads[-1])
        for thread in threads:
            thread.join()

    def _wait_while_it_goes_on(self, thread: threading.Thread) -> None:
        before = -1
        while len(self._left) != before:
            before = len(self._left)
            thread.join(STALL_SECONDS)

    def _read_on(self) -> None:
        while self._left:
            try:
                number, source = self._left.popleft()
            except IndexError:  # another thread took the last
                return
            started = time.monotonic()
            answer = _answer(source)
            self._write({"number": number, "seconds": round(time.monotonic() - started, 3), **answer})

    def _write(self, answer: dict[str, Any]) -> None:
        line = json.dumps(answer).encode("ascii") + b"\n"
        with self._writing:
            while line:
                line = line[os.write(self._fd, line) :]


def _answer(source: dict[str, Any]) -> dict[str, Any]:
    """Return {"text", "status", "error", "truncated"?}."""
    if source["kind"] not in READERS:
        return {"text": "", "status": "failed", "error": "unknown kind of source {!r}".format(source["kind"])}
    try:
        return READERS[source["kind"]](source)
    except BaseException as error:
        return {"text": "", **failure(error, (source["paths"] or [""])[0])}


def read_nvml(source: dict[str, Any]) -> dict[str, Any]:
    """Read NVML; only this copy of the process loads what that takes."""
    from qwenhost.probe import nvml

    return nvml.read_nvml(source)


READERS = {
    "file": read_file,
    "digest": read_digest,
    "tree": read_tree,
    "nvml": read_nvml,
    "http": read_http,
}
