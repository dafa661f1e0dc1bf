"""Child processes: a command, or a copy of this process that reads and writes the answer into its pipe."""

from __future__ import annotations

import errno
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


def start(source: dict[str, Any], text_fd: int, message_fd: int, outcome_fd: int) -> int | None:
    """Start the child that reads a source; return its pid, None where there is no such command.

    The outcome is {"status", "error", "truncated"?}; a command that could be started writes none.
    """
    if source["kind"] != "command":
        pid = os.fork()
        if pid == 0:
            _run(source, text_fd, message_fd, outcome_fd)
        return pid
    try:
        return _spawn(source["argv"], text_fd, message_fd)
    except OSError as error:
        _write(outcome_fd, json.dumps(failure(error, source["argv"][0])).encode("utf-8"))
        return None


def _spawn(argv: list[Any], text_fd: int, message_fd: int) -> int:
    """Start a command without a copy of this process, which would cost more than most commands do."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, text_fd, 1),
        (os.POSIX_SPAWN_DUP2, message_fd, 2),
    ]
    return os.posix_spawn(_found(argv[0]), argv, ENVIRONMENT, file_actions=actions, setsid=True)


def _found(name: str) -> str:
    """Return the path of a command, one that may be run before one that may not."""
    paths = [os.path.join(folder, name) for folder in PATH.split(":")]
    there = [path for path in paths if os.path.exists(path)]
    if not there:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return next((path for path in there if os.access(path, os.X_OK)), there[0])


def _run(source: dict[str, Any], text_fd: int, message_fd: int, outcome_fd: int) -> None:
    """Do the work of a freshly forked child; never returns."""
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(text_fd, 1)
        os.dup2(message_fd, 2)
        outcome = _answer(source)
    except BaseException as error:
        outcome = failure(error, (source["paths"] or [""])[0])
    _write(outcome_fd, json.dumps(outcome).encode("utf-8"))
    os._exit(0)


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
