"""What `nvidia-smi` warns of an InfoROM, where a board keeps its serial number, settings and error history."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.gpus import LISTING, QUERY, TABLE, XML
from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_WARNING = re.compile(r"^.*info ?ROM is corrupt.*$", re.IGNORECASE | re.MULTILINE)
_ANSWER = re.compile(r"\| *NVIDIA-SMI \d|^GPU \d+: |^GPU [0-9A-Fa-f]{8}:|<nvidia_smi_log", re.MULTILINE)


@dataclass(frozen=True)
class InforomWarnings:
    """The warnings: bus id and line of each."""

    lines: tuple[tuple[str, str], ...]

    def merge(self, other: InforomWarnings) -> InforomWarnings:
        """Join the warnings, each once: every call of the tool repeats them."""
        return InforomWarnings(tuple(dict([*other.lines, *self.lines]).items()))


@parses(TABLE)
@parses(QUERY)
@parses(XML)
@parses(LISTING)
def inforom_warnings(capture: Capture) -> InforomWarnings:
    """Parse the warnings around an answer of `nvidia-smi`; raises Unparsable where it did not answer."""
    text = plain(capture.text)
    if not _ANSWER.search(text):
        raise Unparsable("no answer of nvidia-smi in it")
    return InforomWarnings(tuple({bus_id(line): line.strip() for line in _WARNING.findall(text)}.items()))
