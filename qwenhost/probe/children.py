"""What a child process does: become the command, or read and write the answer into its pipe."""

from __future__ import annotations

import json
import os
from typing import Any

from qwenhost.probe import files, loopback, nvml

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C", "LANG": "C", "HOME": "/", "SYSTEMD_COLORS": "0", "TERM": "dumb"}

READERS = {
    "file": files.read_file,
    "digest": files.read_digest,
    "tree": files.read_tree,
    "nvml": nvml.read_nvml,
    "http": loopback.read_http,
}


def run(source: dict[str, Any], text_fd: int, message_fd: int, outcome_fd: int) -> None:
    """Do the work of a freshly forked child; never returns.

    The outcome is {"status", "error", "truncated"?}; a command that could be started writes none.
    """
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(text_fd, 1)
        os.dup2(message_fd, 2)
        if source["kind"] == "command":
            _become(source["argv"])
        outcome = _answer(source)
    except BaseException as error:
        outcome = failure(error, (source["argv"] or source["paths"] or [""])[0])
    _write(outcome_fd, json.dumps(outcome).encode("utf-8"))
    os._exit(0)


def _become(argv: list[Any]) -> None:
    os.execvpe(argv[0], argv, ENVIRONMENT)


def _answer(source: dict[str, Any]) -> dict[str, Any]:
    if source["kind"] not in READERS:
        return {"status": "failed", "error": "unknown kind of source {!r}".format(source["kind"])}
    outcome = READERS[source["kind"]](source)
    _write(1, outcome.pop("text").encode("utf-8", "replace"))
    return outcome


def failure(error: BaseException, what: str) -> dict[str, Any]:
    """Return the outcome for an exception; `what` was to be read or run."""
    if isinstance(error, TimeoutError):
        return {"status": "timeout", "error": "no answer in time"}
    if isinstance(error, FileNotFoundError):
        return {"status": "missing", "error": what + ": not found"}
    if isinstance(error, PermissionError):
        return {"status": "denied", "error": what + ": permission denied"}
    text = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
    return {"status": "failed", "error": text}


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
