"""Which bytes a model's files have to have: a file SHA256SUMS beside them, as sha256sum writes it."""

from __future__ import annotations

import hashlib
import os
import re

from qwenhost.hands.answer import Refused, why

SUMS = "SHA256SUMS"
CHUNK_BYTES = 8 * 1024 * 1024
LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?([^/]+)")


def belongs(name: str) -> bool:
    """Tell whether a file is part of a model: hidden files, pages for people and the sums are not."""
    return not name.startswith(".") and not name.endswith((".md", SUMS))


def promised(folder: str) -> dict[str, str]:
    """Return name -> sum of a folder's files, none where it has no sums. Raises Refused."""
    path = os.path.join(folder, SUMS)
    try:
        with open(path, encoding="utf-8") as file:
            return parsed(file.read(), path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Refused("{}: {}".format(path, why(error))) from error


def parsed(text: str, path: str) -> dict[str, str]:
    """Return name -> sum. Raises Refused for a line of another form, and for no line at all."""
    found = [_line(line.strip(), path) for line in text.splitlines() if line.strip()]
    sums = {name: digest for name, digest in found if belongs(name)}
    if not sums:
        raise Refused("{}: empty".format(path))
    return sums


def _line(line: str, path: str) -> tuple[str, str]:
    match = LINE.fullmatch(line)
    if match is None:
        raise Refused("{}: {!r} is no line of sha256sum for a file beside it".format(path, line[:100]))
    return match[2], match[1].lower()


def sha256(path: str) -> str:
    """Return the sum of a file's content. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        chunk = file.read(CHUNK_BYTES)
        while chunk:
            digest.update(chunk)
            chunk = file.read(CHUNK_BYTES)
    return digest.hexdigest()
