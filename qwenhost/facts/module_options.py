"""Options of the nvidia kernel module: as our file asks for them, and as the loaded module has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.boot_loader import STAMP
from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.source import tree

ANCHOR = "/proc/version"
OWN = "/etc/modprobe.d/qwenhost-nvidia.conf"
LOADED = "/proc/driver/nvidia/params"

FILES = tree("nvidia-options", ANCHOR, OWN, LOADED)


@dataclass(frozen=True)
class ModuleOptions:
    """Option, such as NVreg_EnableMSI -> value. `loaded` is None where the module does not tell.

    `written_in`: id of the boot in which our file was written.
    """

    own: Mapping[str, str]
    loaded: Mapping[str, str] | None
    written_in: str = ""


@parses(FILES)
def module_options(capture: Capture) -> ModuleOptions:
    """Parse our file, and the list that the driver shows without the prefix of the names."""
    files = listing(capture, ANCHOR)
    own, stamp = files.get(OWN, ""), STAMP.search(files.get(OWN, ""))
    rows = re.findall(r'^(\w+): "?(.*?)"?\s*$', files.get(LOADED, ""), re.MULTILINE)
    return ModuleOptions(
        own=dict(re.findall(r"\b(NVreg_\w+)=(\S+)", own)),
        loaded={f"NVreg_{name}": value for name, value in rows} if rows else None,
        written_in=stamp["boot"] if stamp else "",
    )
