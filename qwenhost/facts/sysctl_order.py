"""Kernel settings as systemd-sysctl will set them at the next boot: every file, in its order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.source import tree

ANCHOR = "/proc/version"
OWN = "/etc/sysctl.d/90-qwenhost.conf"

FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
"""Of files with one name, that of the first folder counts, alone (sysctl.d(5))."""

FILES = tree("sysctl-files", ANCHOR, *(f"{folder}/*.conf" for folder in FOLDERS))

_LINE = re.compile(r"^\s*-?(?P<key>[\w./-]+)\s*=\s*(?P<value>.*?)\s*$")


@dataclass(frozen=True)
class Assignment:
    """One line of a file; `place` is "file:line"."""

    value: str
    place: str

    @property
    def ours(self) -> bool:
        """Whether it stands in our file."""
        return self.place.startswith(f"{OWN}:")


@dataclass(frozen=True)
class SysctlOrder:
    """Key in dotted form -> its assignments in the order in which they are made: the last one stays."""

    lines: Mapping[str, tuple[Assignment, ...]]


@parses(FILES)
def sysctl_order(capture: Capture) -> SysctlOrder:
    """Parse all files; globs are left out, since they change no key that any file names."""
    files = listing(capture, ANCHOR)
    found: dict[str, list[Assignment]] = {}
    for path in _in_order(files):
        for key, assignment in _assignments(path, files[path]):
            found.setdefault(key, []).append(assignment)
    return SysctlOrder({key: tuple(lines) for key, lines in found.items()})


def _in_order(files: Mapping[str, str]) -> list[str]:
    """Return the files that count, by name."""
    chosen: dict[str, str] = {}
    for folder in FOLDERS:
        for path in sorted(path for path in files if path.startswith(f"{folder}/") and path.endswith(".conf")):
            chosen.setdefault(PurePosixPath(path).name, path)
    return [chosen[name] for name in sorted(chosen)]


def _assignments(path: str, text: str) -> Iterator[tuple[str, Assignment]]:
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.match(line)
        if found:
            yield _dotted(found["key"]), Assignment(" ".join(found["value"].split()), f"{path}:{number}")


def _dotted(key: str) -> str:
    """As sysctl(8) does: the first separator of a key says what separates it."""
    first = next((letter for letter in key if letter in "./"), ".")
    return key if first == "." else key.translate(str.maketrans("./", "/."))
