"""GPU facts from `nvidia-smi -q`, read by indentation: keys recur under many headings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qwenhost.facts.gpus import QUERY, Gpus
from qwenhost.facts.reading import number, plain
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.fields import gpu_from
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")


@parses(QUERY, trust=1)
def gpus_from_query(capture: Capture) -> Gpus:
    """Parse all GPU blocks, also of a shortened paste; raises Unparsable when there is none."""
    text = plain(capture.text)
    found, count = list(blocks(text)), attached(text)
    if not found:
        raise Unparsable("no GPU block in it")
    whole = count in (None, len(found))  # `-i` prints one block of many, under the count of all
    gpus = (
        gpu_from(dict(paths(block)), address, index if whole else None)
        for index, (address, block) in enumerate(found)
    )
    return Gpus(tuple(gpus), count)


def attached(text: str) -> int | None:
    """Return the count that the driver prints above the blocks."""
    line = re.search(r"^Attached GPUs\s*:\s*(.+)$", text, re.MULTILINE)
    return number(line[1]) if line else None


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the bus id and lines of each GPU block."""
    address, lines = "", list[str]()
    for line in text.splitlines():
        head = _GPU.match(line)
        if head:
            if address:
                yield address, lines
            address, lines = head[1], []
        elif line[:1].isspace() and address:
            lines.append(line)
        elif line.strip() and address:
            yield address, lines
            address, lines = "", []
    if address:
        yield address, lines


def paths(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, value); the path joins the headings above a key by their indentation, lower case."""
    above: list[tuple[int, str]] = []
    for line in lines:
        if not line.strip():
            continue
        indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        key, separator, text = line.strip().partition(" :") if " :" in line else line.strip().partition(": ")
        while above and above[-1][0] >= indent:
            above.pop()
        yield "/".join([*(name for _, name in above), key.strip().lower()]), text.strip() if separator else ""
        above.append((indent, key.strip().lower()))
