"""Kernel settings: as they are now, and as configuration files ask for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from qwenhost.facts.keyed import matching
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import Source, recorded, tree

LIVE = tree(
    "sysctl",
    "/proc/sys/net/core/*",
    "/proc/sys/net/ipv4/tcp_*",
    "/proc/sys/net/ipv4/neigh/default/gc_*",
    "/proc/sys/vm/*",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/shm*",
    "/proc/sys/fs/file-*",
    "/proc/sys/fs/nr_open",
)
TEXT = recorded("sysctl-text", looks_like=r"^\s*(?:net|vm|kernel|fs)(?:\.[\w-]+)+\s*=\s*\S")

ADVICE = recorded("sysctl-advice", looks_like=r"try to increase (?:\"[a-z0-9_.]+\",? ?)+")
"""Said by UCX when connections are refused for lack of room in a queue."""

LINE = re.compile(
    r"^\s*(?P<key>(?:net|vm|kernel|fs|user|dev)(?:[./][\w-]+)+)\s*=\s*(?P<value>\S.*?)\s*$", re.MULTILINE
)


@dataclass(frozen=True)
class Sysctl:
    """Key in dotted form -> value as it stands."""

    values: Mapping[str, str]
    complete: bool = False
    """Whether the kernel's own files were listed, so that what is not there this kernel has not."""

    def merge(self, other: Sysctl) -> Sysctl:
        """Add what only the other view has."""
        return Sysctl({**other.values, **self.values}, self.complete or other.complete)


@dataclass(frozen=True)
class SysctlFiles:
    """What configuration files ask for: key in dotted form -> value; the last file wins, as in systemd."""

    values: Mapping[str, str] = field(default_factory=dict)

    def merge(self, other: SysctlFiles) -> SysctlFiles:
        """Add a file that is read later."""
        return SysctlFiles({**self.values, **other.values})


@dataclass(frozen=True)
class SysctlAdvice:
    """Settings that a program asks to raise, and how it said so."""

    keys: tuple[str, ...]
    line: str


def declared_source(keys: Iterable[str]) -> Source:
    """Return a source for settings that an inventory names, which may lie anywhere."""
    paths = sorted(f"/proc/sys/{key.replace('.', '/')}" for key in keys)
    return replace(LIVE, name=f"{LIVE.name}:declared", paths=tuple(paths))


@parses(LIVE)
def live(capture: Capture) -> Sysctl:
    """Parse files below /proc/sys."""
    found = {match[1].replace("/", "."): content for match, content in matching(capture, r"/proc/sys/(.+?)")}
    known = {key: content for key, content in found.items() if not key.endswith(("@", "!"))}
    return replace(_some(known), complete=True)


@parses(TEXT, trust=1)
def text(capture: Capture) -> Sysctl:
    """Parse the output of `sysctl -a`; what a configuration file asks for need not be in force."""
    if _is_configuration(capture):
        raise Unparsable("a configuration file, not what is in force")
    return _some(_lines(capture))


@parses(TEXT)
def configured(capture: Capture) -> SysctlFiles:
    """Parse a configuration file."""
    if not _is_configuration(capture):
        raise Unparsable("what is in force, not a configuration file")
    return SysctlFiles(_lines(capture))


def _is_configuration(capture: Capture) -> bool:
    """Tell a file that asks from a command's output: by its name, or by comments, which no command prints."""
    named = capture.origin.split(": ")[-1].endswith(".conf")
    return named or re.search(r"^\s*[#;]", capture.text, re.MULTILINE) is not None


@parses(ADVICE)
def advice(capture: Capture) -> SysctlAdvice:
    """Parse the settings that a program asks to raise."""
    lines = [line.strip() for line in capture.text.splitlines() if "try to increase" in line]
    keys = re.findall(r'"([a-z0-9_]+(?:\.[a-z0-9_]+)+)"', " ".join(lines))
    return SysctlAdvice(tuple(dict.fromkeys(keys)), lines[0])


def _lines(capture: Capture) -> Mapping[str, str]:
    return {match["key"].replace("/", "."): match["value"] for match in LINE.finditer(capture.text)}


def _some(values: Mapping[str, str]) -> Sysctl:
    if not values:
        raise Unparsable("no setting in it")
    return Sysctl(values)
