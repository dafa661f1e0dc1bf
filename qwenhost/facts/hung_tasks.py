"""Tasks that the kernel found blocked, and processors that it found stuck, with the stack of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from qwenhost.facts.kernel_lines import KERNEL_LOG, Message, kernel_log
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture

_WORDS = ("blocked for more than", "soft lockup")
_BLOCKED = re.compile(
    r"task (?P<task>.{1,80}):(?P<pid>\d+)(?: <\S+>)? blocked for more than (?P<seconds>\d+) seconds"
)
_STUCK = re.compile(r"soft lockup.{0,80} stuck for (?P<seconds>\d+)s!? \[(?P<task>.{1,80}):(?P<pid>\d+)\]")

_FRAME = re.compile(
    r"\s*(?:\[<[0-9a-f]+>\]\s*)?(?P<unsure>\? )?(?P<function>[\w.]+)\+0x\w+/0x\w+(?: \[(?P<module>\w+))?"
)
"""Older kernels print the address before it, newer ones an offset of the module's build behind its name."""

_REPORT_LINES = 90
"""A report has registers, 20 to 50 frames and a few lines around them."""


@dataclass(frozen=True)
class HungTask:
    """One report. `frames`: (function, module or ""), innermost first, those that the kernel is sure of first.

    `stuck`: the task kept its processor busy (soft lockup); otherwise it slept uninterruptibly.
    """

    task: str
    pid: int
    seconds: int
    frames: tuple[tuple[str, str], ...]
    text: str
    at: str = ""
    stuck: bool = False


@dataclass(frozen=True)
class HungTasks:
    """All reports since the last boot that the logs show, in order."""

    tasks: tuple[HungTask, ...]
    cut: bool = False

    def merge(self, other: HungTasks) -> HungTasks:
        """Add what the other log has more; stacks tell the same report in two logs."""
        known = {(task.pid, task.frames) for task in self.tasks}
        more = (task for task in other.tasks if (task.pid, task.frames) not in known)
        return HungTasks((*self.tasks, *more), self.cut and other.cut)


@parses(KERNEL_LOG)
def hung_tasks(capture: Capture) -> HungTasks:
    """Parse the reports of the hung task detector and the watchdog; raises Unparsable for other logs."""
    log = kernel_log(capture)
    reports = [message for message in log.messages(_WORDS) if not message.earlier_boot]
    tasks = (task for report in reports for task in _task(report, log.after(report, _REPORT_LINES)))
    return HungTasks(tuple(tasks), log.cut)


def _task(report: Message, rest: Iterable[Message]) -> Iterator[HungTask]:
    found = _BLOCKED.search(report.text) or _STUCK.search(report.text)
    if found:
        yield HungTask(
            found["task"],
            int(found["pid"]),
            int(found["seconds"]),
            _frames(rest),
            report.text.strip(),
            report.at,
            found.re is _STUCK,
        )


def _frames(rest: Iterable[Message]) -> tuple[tuple[str, str], ...]:
    sure: list[tuple[str, str]] = []
    unsure: list[tuple[str, str]] = []
    for message in rest:
        if any(word in message.text for word in _WORDS):
            break
        found = _FRAME.match(message.text)
        if found:
            (unsure if found["unsure"] else sure).append((found["function"], found["module"] or ""))
    return (*sure, *unsure)
