"""Mode of transparent huge pages."""

from __future__ import annotations

import re
from typing import Any

from qwenhost.hands import kernel
from qwenhost.hands.answer import BadRequest, Refused, outcome, why

MODES = ("always", "madvise", "never")
SETTING = "sys/kernel/mm/transparent_hugepage/enabled"


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Bring {"mode": "always" | "madvise" | "never"} into force. Raises Refused."""
    wanted = request["mode"]
    if wanted not in MODES:
        raise BadRequest("mode {!r} is none of {}".format(wanted, ", ".join(MODES)))
    path = kernel.path_of(SETTING)
    try:
        before = _chosen(kernel.read(path))
        if before != wanted and not check:
            kernel.write(path, wanted)
        now = wanted if check else _chosen(kernel.read(path))
    except OSError as error:
        raise Refused("transparent huge pages cannot be set to {}: {}".format(wanted, why(error))) from error
    if now != wanted:
        raise Refused("transparent huge pages: set to {}, still {}".format(wanted, now))
    return outcome([before], [now])


def mode() -> str:
    """Return the mode in force, empty where the kernel has none."""
    try:
        return _chosen(kernel.read(kernel.path_of(SETTING)))
    except OSError:
        return ""


def _chosen(text: str) -> str:
    """Return the mode in brackets of "always [madvise] never", or a plain word as it is."""
    bracketed = re.search(r"\[(\w+)\]", text)
    return bracketed.group(1) if bracketed else text
