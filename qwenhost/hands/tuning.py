"""All settings of a host in one act: what it does now, and what it does at the next boot."""

from __future__ import annotations

from typing import Any, Callable

from qwenhost.hands import (
    boot_unit,
    governor,
    grub,
    hugepages,
    module_options,
    own_files,
    shm,
    swap,
    sysctl,
    thp,
)
from qwenhost.hands.answer import BadRequest, Refused, joined

Act = Callable[[dict[str, Any], bool], dict[str, Any]]

IN_FORCE: dict[str, Act] = {
    "sysctl": sysctl.run,
    "thp": thp.run,
    "governor": governor.run,
    "swap": swap.run,
    "shm": shm.run,
    "hugepages": hugepages.run,
    "kernel-args": grub.run,
    "module-options": module_options.run,
}
"""Part of a request -> its act, in the order in which they are done: pages are found more easily without swap."""

FOR_BOOT: dict[str, Act] = {"files": own_files.run, "boot-unit": boot_unit.run}
"""What only writes down for the next boot what is in force now."""


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Do each act that the request names, with its part: {"sysctl": {"values": ...}, "thp": {...}}.

    Every one is tried. Raises Refused with all that failed; then nothing of it is written for the next boot.
    """
    unknown = sorted(set(request) - {*IN_FORCE, *FOR_BOOT})
    if unknown:
        raise BadRequest("no such setting: {}".format(", ".join(unknown)))
    return joined([*_all(IN_FORCE, request, check), *_all(FOR_BOOT, request, check)])


def _all(parts: dict[str, Act], request: dict[str, Any], check: bool) -> list[dict[str, Any]]:
    answers, failures = [], []
    for name in [name for name in parts if name in request]:
        try:
            answers.append(parts[name](request[name], check))
        except Refused as error:
            failures.append(str(error))
    if failures:
        raise Refused("; ".join(failures))
    return answers
