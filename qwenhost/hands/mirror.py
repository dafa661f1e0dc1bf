"""A mirror: a web server's folder with a model's files and their SHA256SUMS; resumed where it broke off."""

from __future__ import annotations

import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from qwenhost.hands import disk, model_sums
from qwenhost.hands.answer import Refused, why

SILENCE_SECONDS = 60
"""A server that sends nothing for so long is asked again."""

TRIES = 5
"""In a row without a byte."""

PAUSE_SECONDS = 5
TELL_SECONDS = 30
CHUNK_BYTES = 1024 * 1024
SUMS_LIMIT_BYTES = 1024 * 1024
PARTIAL = 206
FAULT_OF_SERVER = 500
MIB = 1024 * 1024


def fetch_folder(url: str, part: str) -> None:
    """Fetch what the mirror's sums name into `part`. Raises Refused; another run goes on from there."""
    base = url.rstrip("/") + "/"
    text = _small(base + model_sums.SUMS)
    sums = model_sums.parsed(text, base + model_sums.SUMS)
    sizes = {name: _size(base + quote(name)) for name in sums}
    disk.need_room(part, sum(sizes.values()))
    for name, digest in sums.items():
        _fetch(base + quote(name), os.path.join(part, name), sizes[name], digest)
    with open(os.path.join(part, model_sums.SUMS), "w", encoding="utf-8") as file:
        file.write(text)


def _fetch(url: str, path: str, size: int, digest: str) -> None:
    """Fetch one file; what is there of it is not fetched again, and goes when the sum is another one."""
    tries = TRIES
    while _present(path) < size:
        before = _present(path)
        error = _fetch_some(url, path, size)
        tries = TRIES if _present(path) > before else tries - 1
        if error and not tries:
            told = "{}: {} after {} of {} MiB; run again to go on there"
            raise Refused(told.format(url, error, _present(path) // MIB, size // MIB))
        if error and tries < TRIES:
            time.sleep(PAUSE_SECONDS)
    found = model_sums.sha256(path)
    if found != digest:
        os.unlink(path)
        told = "{}: sha256 {:.12}..., not the {:.12}... of {}; the file was removed"
        raise Refused(told.format(url, found, digest, model_sums.SUMS))


def _fetch_some(url: str, path: str, size: int) -> str:
    """Fetch from where the file ends; return why it broke off, empty for the end. Raises Refused: disk full."""
    start = _present(path)
    try:
        with _open(url, {"Range": "bytes={}-".format(start)} if start else {}) as answer:
            _write(answer, path, start if answer.status == PARTIAL else 0, size)
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code < FAULT_OF_SERVER:
            raise Refused("{}: {}".format(url, _reason(error))) from error
        return _reason(error)
    return "" if _present(path) >= size else "the server ended early"


def _write(answer: Any, path: str, start: int, size: int) -> None:
    told = time.monotonic()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.truncate(start)
        file.seek(start)
        chunk = answer.read(CHUNK_BYTES)
        while chunk:
            _put(file, chunk, path)
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                sys.stderr.write("{}: {} of {} MiB\n".format(path, file.tell() // MIB, size // MIB))
            chunk = answer.read(CHUNK_BYTES)


def _put(file: Any, chunk: bytes, path: str) -> None:
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        raise Refused("{}: {}; make room and run again to go on there".format(path, why(error))) from error


def _present(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _size(url: str) -> int:
    """Return the length of a file in bytes. Raises Refused where the server does not tell."""
    try:
        with _open(url, {}, "HEAD") as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, http.client.HTTPException, TypeError, ValueError) as error:
        raise Refused("{}: {}".format(url, _reason(error))) from error


def _small(url: str) -> str:
    try:
        with _open(url, {}) as answer:
            return str(answer.read(SUMS_LIMIT_BYTES).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException) as error:
        raise Refused("{}: {}".format(url, _reason(error))) from error


def _open(url: str, headers: dict[str, str], method: str = "GET") -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "qwenhost", **headers}, method=method)
    return urllib.request.urlopen(request, timeout=SILENCE_SECONDS)


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return "HTTP {}".format(error.code)
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError):
        return why(error.reason)
    return why(error)
