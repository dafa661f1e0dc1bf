"""What the role gpu_partitions left to be made at each boot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

ANCHOR = "/proc/version"
CONFIG = "/etc/qwenhost/mig.json"
UNIT = "/etc/systemd/system/qwenhost-mig.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/qwenhost-mig.service"

FILES = tree("mig-at-boot", ANCHOR, CONFIG, UNIT, WANTED)


@dataclass(frozen=True)
class MigAtBoot:
    """`runs`: our unit is there and wanted. `profiles`: of each GPU in our file, None for no MIG."""

    runs: bool = False
    profiles: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)


@parses(FILES)
def mig_at_boot(capture: Capture) -> MigAtBoot:
    """Parse our files, of which none need be there."""
    files = listing(capture, ANCHOR)
    try:
        layout = json.loads(files.get(CONFIG, '{"layout": []}'))["layout"]
        profiles = {int(one["gpu"]): tuple(one["instances"]) if one["mig"] else None for one in layout}
    except (ValueError, KeyError, TypeError) as error:
        raise Unparsable(f"{CONFIG} is no layout") from error
    return MigAtBoot(UNIT in files and WANTED in files, profiles)
