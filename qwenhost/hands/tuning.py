"""All settings of a host in one act: what it does now, and what it does at the next boot."""

from __future__ import annotations

from typing import Any, Callable

from qwenhost.hands import governor, grub, hugepages, module_options, shm, swap, sysctl, thp
from qwenhost.hands.answer import BadRequest, Refused, outcome

Act = Callable[[dict[str, Any], bool], dict[str, Any]]

PARTS: dict[str, Act] = {
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


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Do each act that the request names, with its part: {"sysctl": {"values": ...}, "thp": {...}}.

    Every one is tried. Raises Refused with all that failed.
    """
    unknown = sorted(set(request) - set(PARTS))
    if unknown:
        raise BadRequest("no such setting: {}".format(", ".join(unknown)))
    answers, failures = [], []
    for name in [name for name in PARTS if name in request]:
        try:
            answers.append(PARTS[name](request[name], check))
        except Refused as error:
            failures.append(str(error))
    if failures:
        raise Refused("; ".join(failures))
    reasons = [answer["reason"] for answer in answers if answer["reason"]]
    return outcome(_joined(answers, "before"), _joined(answers, "after"), "; ".join(reasons))


def _joined(answers: list[dict[str, Any]], key: str) -> list[str]:
    return [line for answer in answers for line in answer[key]]
