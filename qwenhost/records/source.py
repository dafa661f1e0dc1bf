"""What to read on a host. A request is a list of sources; the probe runs it and interprets nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["command", "file", "digest", "tree", "nvml", "http", "trial"]

TIMEOUT_SECONDS = 10.0
"""A wedged driver blocks for ever; a busy but sound host answers within two seconds."""

LIMIT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Source:
    """One read-only thing to read.

    command: `argv` is run with LC_ALL=C and a fixed PATH, no shell; `good_exits` are answers, others fail.
    file: `paths[0]` is read.  tree: `paths` are globs; the text is a JSON object {path: content}.
    digest: the first eight digits of the SHA256 of `paths[0]`.
    nvml: the text is the JSON written by the probe's NVML reader.  http: GET of `url` on loopback.
    trial: `argv[0]` names an active test; the probe has none, `qwenhost.trials` runs it.
    `looks_like` recognises the same content in a file that somebody sent (regular expression, multi-line).
    """

    name: str
    kind: Kind
    argv: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    url: str = ""
    good_exits: tuple[int, ...] = (0,)
    timeout_seconds: float = TIMEOUT_SECONDS
    limit_bytes: int = LIMIT_BYTES
    looks_like: str = ""

    def request(self) -> dict[str, Any]:
        """Return the JSON form that the probe reads."""
        return {name: value for name, value in vars(self).items() if name != "looks_like"}

    @property
    def live(self) -> bool:
        """Whether the probe can read it on a host; others are recognised in files, or tried out when asked."""
        return self.kind != "trial" and (self.kind == "nvml" or bool(self.argv or self.paths or self.url))

    def recognises(self, text: str) -> bool:
        """Tell whether `text` has the form of this source's answer."""
        return bool(self.looks_like) and re.search(self.looks_like, text, re.MULTILINE) is not None


def command(name: str, *argv: str, looks_like: str = "", good_exits: tuple[int, ...] = (0,)) -> Source:
    """Declare a command source."""
    return Source(name, "command", argv=argv, looks_like=looks_like, good_exits=good_exits)


def file(name: str, path: str, looks_like: str = "") -> Source:
    """Declare a file source."""
    return Source(name, "file", paths=(path,), looks_like=looks_like)


def digest(name: str, path: str) -> Source:
    """Declare a secret: two can be told apart by the digits, and neither be told from them."""
    return Source(name, "digest", paths=(path,))


def tree(name: str, *globs: str) -> Source:
    """Declare a set of small files, read together into one JSON object."""
    return Source(name, "tree", paths=globs)


def recorded(name: str, looks_like: str) -> Source:
    """Declare text that is never asked for, only recognised among files that somebody sent."""
    return Source(name, "file", looks_like=looks_like)


def http(name: str, url: str) -> Source:
    """Declare a GET of a loopback URL."""
    return Source(name, "http", url=url)
