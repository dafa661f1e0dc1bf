"""Which machine and firmware it is, as the firmware tells the kernel."""

from __future__ import annotations

import json
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

FOLDER = "/sys/class/dmi/id"

DMI = tree("dmi", *(f"{FOLDER}/{name}" for name in ("sys_vendor", "product_name", "bios_version", "bios_date")))


@dataclass(frozen=True)
class Board:
    """Empty: the firmware does not tell."""

    product: str
    bios: str


@parses(DMI)
def board(capture: Capture) -> Board:
    """Join the files; raises Unparsable where there is none, as in a container."""
    files = {path.rpartition("/")[2]: str(text).strip() for path, text in json.loads(capture.text).items()}
    told = [_joined(files, "sys_vendor", "product_name"), _joined(files, "bios_version", "bios_date")]
    if not any(told):
        raise Unparsable("the firmware tells nothing")
    return Board(*told)


def _joined(files: dict[str, str], *names: str) -> str:
    return " ".join(files[name] for name in names if files.get(name))
