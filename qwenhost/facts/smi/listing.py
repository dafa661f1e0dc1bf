"""GPU facts from `nvidia-smi -L`: names and UUIDs."""

from __future__ import annotations

import re

from qwenhost.facts.gpus import LISTING, Gpu, Gpus
from qwenhost.facts.reading import bus_id, plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_ROW = re.compile(r"^GPU (\d+): (.+?) \(UUID: ([^)]*)\)\s*$", re.MULTILINE)
_GONE = re.compile(r"^Unable to determine the device handle for (?:gpu|GPU) ?(\S*?):? (\S.*)$", re.MULTILINE)


@parses(LISTING, trust=3)
def gpus_from_listing(capture: Capture) -> Gpus:
    """Parse the list; a GPU without a handle is a lost one."""
    text = plain(capture.text)
    rows = [Gpu(index=int(index), name=name, uuid=uuid) for index, name, uuid in _ROW.findall(text)]
    gone = [Gpu(bus_id=bus_id(where) or None, lost=why) for where, why in _GONE.findall(text)]
    if not rows and not gone:
        raise Unparsable("no GPU line in it")
    return Gpus((*rows, *gone))
