"""What NCCL is told: variables in the files of services, in shells, and as its own log repeats them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from qwenhost.facts.keyed import listing
from qwenhost.facts.nccl_log import LOG
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.facts.vllm import CONFIG
from qwenhost.facts.vllm_log import JOURNAL
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded, tree

FILES = replace(
    tree(
        "nccl-settings",
        "/etc/nccl.conf",
        "/etc/environment",
        f"{CONFIG}/*.env",
        "/etc/systemd/system/vllm*.service",
        "/etc/systemd/system/vllm*.service.d/*.conf",
        "/proc/version",
    ),
    looks_like=r'"/etc/(?:nccl\.conf|environment)": ',
)
"""/proc/version is there on every host: with it alone, nothing is set."""

_NAME = r"(?:NCCL|GLOO|CUDA|NVIDIA)_[A-Z0-9_]+"

SHELL = recorded(
    "nccl-environment",
    looks_like=rf"^\s*(?:export |declare -x |Environment=|- )?\"?{_NAME}=\S"
    rf"|^\s*(?:- )?\"?{_NAME}\"?: *[\"']?\w|^\s*-? ?name: [\"']?{_NAME}[\"']?\s*\n\s+value: ",
)
"""`env`, a unit, a shell script, /etc/nccl.conf or variables in a compose file or a pod."""


@dataclass(frozen=True)
class Setting:
    """One variable. `where` is a path, empty for what a log tells; `line` is how it stood there."""

    name: str
    value: str
    where: str = ""
    line: str = ""


@dataclass(frozen=True)
class NcclSettings:
    """Variables that were seen, of NCCL and of what it stands on. `unread`: files that could not be read.

    `whole`: the files of all services were looked at, so that what is not here is not set.
    """

    settings: tuple[Setting, ...] = ()
    unread: tuple[str, ...] = ()
    whole: bool = False

    def merge(self, other: NcclSettings) -> NcclSettings:
        """Add what another source shows."""
        return NcclSettings(
            (*self.settings, *other.settings), (*self.unread, *other.unread), self.whole or other.whole
        )

    def last(self) -> tuple[Setting, ...]:
        """Return each variable and value once."""
        return tuple({(setting.name, setting.value): setting for setting in reversed(self.settings)}.values())


@parses(FILES)
def settings_in_files(capture: Capture) -> NcclSettings:
    """Parse the files that services get their environment from."""
    paths = listing(capture, "/proc/version")
    unread = tuple(path.removesuffix("!") for path in paths if path.endswith("!"))
    found = (setting for path, text in paths.items() for setting in _assigned(text, path))
    return NcclSettings(tuple(found), unread, whole=True)


@parses(SHELL, trust=1)
def settings_in_shell(capture: Capture) -> NcclSettings:
    """Parse text that assigns variables, in whatever syntax."""
    text = plain(capture.text)
    found = (*_assigned(text, ""), *_mapped(text))
    if not found:
        raise Unparsable("no variable in it")
    return NcclSettings(found)


_ASSIGNED = re.compile(
    rf"^(?!\s*#).*?(?<![\w$])({_NAME})=(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s\"';]*))", re.MULTILINE
)


def _assigned(text: str, where: str) -> Iterator[Setting]:
    for found in _ASSIGNED.finditer(text):
        yield Setting(
            found[1], next((value for value in found.groups()[1:] if value), ""), where, found[0].strip()
        )


_MAPPED = re.compile(
    rf"^\s*(?:-? ?name: [\"']?({_NAME})[\"']?\s*\n\s+value|(?:- )?\"?({_NAME})\"?): *[\"']?([^\"'\s,#]+)",
    re.MULTILINE,
)
"""YAML and JSON: a key with its value, or a pod's pairs of name and value."""


def _mapped(text: str) -> Iterator[Setting]:
    for found in _MAPPED.finditer(text):
        yield Setting(found[1] or found[2], found[3], line=" ".join(found[0].split()))


_TOLD = re.compile(rf"NCCL INFO ({_NAME}) set (?:by environment )?to (.+?)\.?\s*$", re.MULTILINE)


@parses(LOG, trust=2)
@parses(JOURNAL, trust=2)
def settings_that_nccl_tells(capture: Capture) -> NcclSettings:
    """Take what NCCL tells of its environment in the journal of the services, or in a log."""
    found = {(told[1], told[2]): told[0] for told in _TOLD.finditer(plain(capture.text))}
    if not found:
        raise Unparsable("NCCL tells of no setting in it")
    return NcclSettings(tuple(Setting(name, value, "", line) for (name, value), line in found.items()))
