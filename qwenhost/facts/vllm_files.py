"""Who may read the files of the service's configuration, and which of them are there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.facts.vllm import CONFIG
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command

FORM = r"%m %u %f\n"
FILES = command("vllm-files", "find", "-L", CONFIG, "-maxdepth", "1", "-type", "f", "-printf", FORM)


@dataclass(frozen=True)
class ConfigFile:
    """Permissions as octal digits, and the owner's name."""

    mode: str
    owner: str


@dataclass(frozen=True)
class VllmFiles:
    """Name -> file."""

    files: Mapping[str, ConfigFile]


@parses(FILES)
def files(capture: Capture) -> VllmFiles:
    """Parse a line per file: mode, owner, name."""
    rows = [re.fullmatch(r"([0-7]{1,4}) (\S+) (.+)", line) for line in capture.text.splitlines()]
    if not all(rows):
        raise Unparsable("no listing")
    return VllmFiles({row[3]: ConfigFile(row[1], row[2]) for row in rows if row})
